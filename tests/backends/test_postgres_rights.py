"""The rights that a role needs, and the error for a role that lacks one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from jazzmine.backends.postgres.schema import (
    ITEM_TABLES,
    MEMORY_TABLES,
    MESSAGE_TABLES,
    Component,
    Migration,
    migrations,
)
from jazzmine.cli.doctor_postgres import check_postgres
from jazzmine.config import PostgresConfig
from jazzmine.errors import ConfigurationError
from jazzmine.findings import Finding
from jazzmine.records.items import MemoryItem
from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore
from tests.backends.postgres_samples import config, conversation, message, trace
from tests.servers import postgres

NEW_SCHEMA = True  # the fixture `schema`

WORD = "open-sesame"
ITEM = MemoryItem(namespace=("n",), key="k", value={})
MIGRATION = "jazzmine._sync.clients.postgres.migration"


@pytest.fixture
def role(admin: psycopg.Connection[tuple[Any, ...]], schema: str) -> Iterator[str]:
    """A role that has only the right to connect."""
    name = f"jazzmine_test_{uuid4().hex[:8]}"
    admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{WORD}'".encode())
    yield name
    admin.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE'.encode())
    admin.execute(f"DROP OWNED BY {name} CASCADE".encode())
    admin.execute(f"DROP ROLE {name}".encode())


def open_as(role: str, schema: str) -> MessageStore:
    dsn = postgres.changed(postgres.dsn(), user=role, password=WORD)
    return MessageStore.initialize(config(schema, dsn=dsn))


@pytest.fixture
def granted(admin: psycopg.Connection[tuple[Any, ...]], schema: str, role: str) -> str:
    """The role, with only the rights to read and write the tables."""
    MessageStore.initialize(config(schema)).close()
    admin.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO {role}'.encode())
    rights = "SELECT, INSERT, UPDATE, DELETE"
    admin.execute(f'GRANT {rights} ON ALL TABLES IN SCHEMA "{schema}" TO {role}'.encode())
    return role


def test_rights_on_the_tables_are_all_that_a_store_needs(schema: str, granted: str) -> None:
    with open_as(granted, schema) as store, ThreadPoolExecutor(20) as threads:
        store.store_conversation(conversation())
        list(threads.map(store.store_message, (message(f"m{n}") for n in range(20))))
        store.store_messages([message("z"), message("y"), message("x")])
        store.store_turn(
            conversation=conversation(),
            messages=[message("last"), message("ending")],
            trace=trace("last"),
        )
        held = [one.id for one in store.get_messages_by_conversation_id("c1")]
        assert held[20:] == ["z", "y", "x", "last", "ending"]
        assert store.delete_message("last")
        assert store.delete_conversation("c1")


@pytest.mark.parametrize(
    ("what", "right"),
    [("messages", "INSERT"), ("turn_traces", "DELETE"), ("conversations", "UPDATE")],
)
def test_a_missing_right_is_the_error_of_the_call_that_meets_it_and_the_doctor_says_the_cure(
    admin: psycopg.Connection[tuple[Any, ...]], schema: str, granted: str, what: str, right: str
) -> None:
    admin.execute(f'REVOKE {right} ON "{schema}".{what} FROM {granted}'.encode())
    calls: dict[str, Callable[[MessageStore], object]] = {
        "messages": lambda store: store.store_message(message()),
        "turn_traces": lambda store: store.erase_user("u"),
        "conversations": lambda store: store.append_messages("c1", [message()]),
    }
    MessageStore.initialize(config(schema)).store_turn(
        conversation=conversation(), messages=[message()], trace=trace()
    )
    with open_as(granted, schema) as store:
        with pytest.raises(ConfigurationError, match=f"table {what}; `jazzmine doctor`") as raised:
            calls[what](store)
        assert isinstance(raised.value.__cause__, psycopg.errors.InsufficientPrivilege)
        (finding,) = failures(granted, schema)
        assert f"{right} on the table {what}" in finding.text
        admin.execute(finding.cure.encode())
        assert failures(granted, schema) == []


@pytest.mark.parametrize(
    "change",
    [
        "REVOKE EXECUTE ON FUNCTION {schema}.jazzmine_pop(text, text, text) FROM {role}, PUBLIC",
        "ALTER TABLE {schema}.conversations ALTER seq RESTART",
        "ALTER TABLE {schema}.messages ALTER seq RESTART",
        "ALTER TABLE {schema}.turn_traces ALTER seq RESTART",
    ],
)
def test_functions_without_rights_and_sequences_behind_their_rows_are_found_by_the_doctor(
    admin: psycopg.Connection[tuple[Any, ...]], schema: str, granted: str, change: str
) -> None:
    with MessageStore.initialize(config(schema)) as store:
        store.store_turn(conversation=conversation(), messages=[message()], trace=trace())
    admin.execute(change.format(schema=f'"{schema}"', role=granted).encode())
    (finding,) = failures(granted, schema)
    admin.execute(finding.cure.encode())
    assert failures(granted, schema) == []


@pytest.mark.parametrize(
    ("component", "kind", "call"),
    [
        (ITEM_TABLES, LongTermMemoryStore, lambda store: store.put(ITEM)),
        (MEMORY_TABLES, WorkingMemoryStore, lambda store: store.get_or_create("c1", "u", "a")),
    ],
)
def test_the_doctor_says_what_the_other_kinds_of_store_lack(
    admin: psycopg.Connection[tuple[Any, ...]],
    schema: str,
    role: str,
    component: Component,
    kind: Any,
    call: Callable[[Any], object],
) -> None:
    kind.initialize(config(schema)).close()
    admin.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO {role}'.encode())
    admin.execute(f'GRANT SELECT ON ALL TABLES IN SCHEMA "{schema}" TO {role}'.encode())
    dsn = postgres.changed(postgres.dsn(), user=role, password=WORD)
    with kind.initialize(config(schema, dsn=dsn)) as store:
        with pytest.raises(ConfigurationError, match="`jazzmine doctor`"):
            call(store)
        (finding,) = failures(role, schema, component)
        admin.execute(finding.cure.encode())
        call(store)
    assert failures(role, schema, component) == []


@pytest.mark.parametrize(
    ("component", "kind", "call"),
    [
        (MESSAGE_TABLES, MessageStore, lambda store: store.append_messages("c1", [message("m2")])),
        (ITEM_TABLES, LongTermMemoryStore, lambda store: store.put(ITEM)),
    ],
)
def test_the_functions_of_a_schema_that_was_renamed_are_made_by_the_cure_of_the_doctor(
    admin: psycopg.Connection[tuple[Any, ...]],
    schema: str,
    component: Component,
    kind: Any,
    call: Callable[[Any], object],
) -> None:
    with MessageStore.initialize(config(schema)) as store:
        store.store_conversation(conversation())
    kind.initialize(config(schema)).close()
    with postgres.new_schema() as renamed:
        admin.execute(f'ALTER SCHEMA "{schema}" RENAME TO "{renamed}"'.encode())
        refused = pytest.raises(ConfigurationError, match="`jazzmine doctor`")
        with kind.initialize(config(renamed)) as store, refused:
            call(store)
        (finding,) = failures(None, renamed, component)
        admin.execute(finding.cure.encode())
        with kind.initialize(config(renamed)) as store:
            call(store)
        assert failures(None, renamed, component) == []


def failures(role: str | None, schema: str, component: Component = MESSAGE_TABLES) -> list[Finding]:
    """What the doctor finds to be wrong for a role, None for the owner."""
    dsn = postgres.dsn()
    if role is not None:
        dsn = postgres.changed(dsn, user=role, password=WORD)
    found = check_postgres(PostgresConfig(dsn=dsn, schema=schema), component)
    return [one for one in found if one.level == "error"]


def test_a_table_that_is_dropped_while_a_store_is_open_is_named(
    admin: psycopg.Connection[tuple[Any, ...]], schema: str
) -> None:
    with MessageStore.initialize(config(schema)) as store:
        store.store_conversation(conversation())
        admin.execute(f'DROP TABLE "{schema}".messages CASCADE'.encode())
        with pytest.raises(ConfigurationError, match=r"does not exist; `jazzmine doctor`"):
            store.get_message_by_id("m1")
        with pytest.raises(ConfigurationError, match=r"\.messages. does not exist"):
            store.store_message(message())
        assert store.get_conversation_by_id("c1") == conversation()
    (finding,) = failures(None, schema)
    assert finding.text.endswith("lacks tables: messages")


def test_a_right_without_which_no_store_opens_is_in_the_error_and_the_doctor_says_the_cure(
    admin: psycopg.Connection[tuple[Any, ...]], schema: str, role: str
) -> None:
    with pytest.raises(ConfigurationError, match="permission denied for database"):
        open_as(role, schema)
    (finding,) = failures(role, schema)
    admin.execute(finding.cure.encode())
    try:
        open_as(role, schema).close()
    finally:
        change = finding.cure.replace("GRANT", "REVOKE").replace(" TO ", " FROM ")
        admin.execute(change.encode())


@pytest.mark.parametrize("right", ["USAGE ON SCHEMA {}", "SELECT ON {}.jazzmine_migrations"])
def test_a_right_to_read_the_version_is_found_by_the_doctor(
    admin: psycopg.Connection[tuple[Any, ...]], schema: str, granted: str, right: str
) -> None:
    place = right.format(f'"{schema}"')
    admin.execute(f"REVOKE {place} FROM {granted}".encode())
    with pytest.raises(ConfigurationError, match=r"permission denied.*`jazzmine doctor`"):
        open_as(granted, schema)
    (finding,) = failures(granted, schema)
    admin.execute(finding.cure.encode())
    open_as(granted, schema).close()


def test_a_role_that_may_not_change_tables_is_told_so(
    admin: psycopg.Connection[tuple[Any, ...]],
    schema: str,
    granted: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = migrations()
    index = "CREATE INDEX idx_msg_next ON $schema.messages (role)"
    newer = (*known, Migration(known[-1].version + 1, "next", index))
    monkeypatch.setattr(f"{MIGRATION}.migrations", lambda _: newer)
    admin.execute(f'GRANT CREATE ON SCHEMA "{schema}" TO {granted}'.encode())
    with pytest.raises(ConfigurationError, match=r"must be owner.*`jazzmine doctor`"):
        open_as(granted, schema)
    (finding,) = failures(granted, schema)
    assert "as the owner of its tables" in finding.text
    MessageStore.initialize(config(schema)).close()
    open_as(granted, schema).close()
