"""The rights that a role needs, and the error for a role that lacks one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from jazzmine.backends.postgres.schema import MESSAGE_TABLES, Migration, migrations
from jazzmine.errors import ConfigurationError
from jazzmine.sync import MessageStore, WorkingMemoryStore
from tests.backends.postgres_samples import config, conversation, message, trace
from tests.servers import postgres

WORD = "open-sesame"
MIGRATION = "jazzmine._sync.clients.postgres.migration"


@pytest.fixture
def schema() -> Iterator[str]:
    with postgres.new_schema() as name:
        yield name


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


TABLE_RIGHTS = [
    (table, right) for table, rights in MESSAGE_TABLES.rights.items() for right in rights
]


@pytest.mark.parametrize(
    ("what", "right"),
    [
        *TABLE_RIGHTS,
        ("jazzmine_migrations", "SELECT"),
        ("SCHEMA", "USAGE"),
        ("FUNCTION jazzmine_forked_id(text,text)", "EXECUTE"),
    ],
)
def test_a_missing_right_is_named_with_the_statement_that_grants_it(
    admin: psycopg.Connection[tuple[Any, ...]], schema: str, granted: str, what: str, right: str
) -> None:
    kind, _, name = what.rpartition(" ")
    place = f'SCHEMA "{schema}"' if what == "SCHEMA" else f'{kind} "{schema}".{name}'
    everyone = f"{granted}, PUBLIC" if right == "EXECUTE" else granted
    admin.execute(f"REVOKE {right} ON {place} FROM {everyone}".encode())
    with pytest.raises(ConfigurationError, match=right) as caught:
        open_as(granted, schema)
    grant = re.search(r"GRANT .*", str(caught.value))
    assert grant is not None
    admin.execute(grant[0].encode())
    with open_as(granted, schema) as store:
        store.store_conversation(conversation())


def test_all_missing_rights_are_named_at_once(
    admin: psycopg.Connection[tuple[Any, ...]], schema: str, granted: str
) -> None:
    admin.execute(f'REVOKE INSERT, DELETE ON "{schema}".messages FROM {granted}'.encode())
    with pytest.raises(ConfigurationError) as caught:
        open_as(granted, schema)
    assert "DELETE on the table messages, INSERT on the table messages" in str(caught.value)
    assert str(caught.value).count("GRANT") == 2


def test_a_table_that_is_gone_is_named(
    admin: psycopg.Connection[tuple[Any, ...]], schema: str, granted: str
) -> None:
    admin.execute(f'DROP TABLE "{schema}".turn_traces'.encode())
    with pytest.raises(ConfigurationError, match="lacks tables: turn_traces; restore"):
        open_as(granted, schema)


def test_a_table_that_is_dropped_while_a_store_is_open_is_named(
    admin: psycopg.Connection[tuple[Any, ...]], schema: str
) -> None:
    with MessageStore.initialize(config(schema)) as store:
        store.store_conversation(conversation())
        admin.execute(f'DROP TABLE "{schema}".messages CASCADE'.encode())
        with pytest.raises(ConfigurationError, match=r"\.messages. does not exist; the schema was"):
            store.get_message_by_id("m1")
        with pytest.raises(ConfigurationError, match=r"\.messages. does not exist"):
            store.store_message(message())
        assert store.get_conversation_by_id("c1") == conversation()


def test_a_schema_that_is_dropped_while_a_store_is_open_is_named_and_made_anew(
    admin: psycopg.Connection[tuple[Any, ...]], schema: str
) -> None:
    with MessageStore.initialize(config(schema)) as store:
        admin.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())
        with pytest.raises(ConfigurationError, match=schema):
            store.store_conversation(conversation())
    with MessageStore.initialize(config(schema)) as store:
        store.store_conversation(conversation())


def test_a_table_of_working_memory_that_is_dropped_meanwhile_is_named(
    admin: psycopg.Connection[tuple[Any, ...]], schema: str
) -> None:
    with WorkingMemoryStore.initialize(config(schema)) as store:
        admin.execute(f'DROP TABLE "{schema}".working_memory CASCADE'.encode())
        with pytest.raises(ConfigurationError, match=r"\.working_memory. does not exist"):
            store.get_or_create("c1", "ada", "desk")


def test_a_role_that_may_not_make_a_schema_gets_an_error(
    admin: psycopg.Connection[tuple[Any, ...]], schema: str, role: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"GRANT CREATE ON DATABASE \w+ TO") as caught:
        open_as(role, schema)
    grant = re.search(r"GRANT .*", str(caught.value))
    assert grant is not None
    admin.execute(grant[0].encode())
    try:
        open_as(role, schema).close()
    finally:
        admin.execute(grant[0].replace("GRANT", "REVOKE").replace(" TO ", " FROM ").encode())


def test_a_role_that_may_not_make_tables_gets_an_error(
    admin: psycopg.Connection[tuple[Any, ...]], schema: str, role: str
) -> None:
    admin.execute(f'CREATE SCHEMA "{schema}"'.encode())
    admin.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO {role}'.encode())
    with pytest.raises(ConfigurationError, match="GRANT CREATE ON SCHEMA") as caught:
        open_as(role, schema)
    grant = re.search(r"GRANT .*", str(caught.value))
    assert grant is not None
    admin.execute(grant[0].encode())
    open_as(role, schema).close()


def test_a_role_that_may_not_change_tables_is_referred_to_their_owner(
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
    with pytest.raises(ConfigurationError, match=r"must be owner.*once as their owner"):
        open_as(granted, schema)
    MessageStore.initialize(config(schema)).close()
    open_as(granted, schema).close()
