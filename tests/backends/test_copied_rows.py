"""Rows that were copied without the sequence or the counter of their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from jazzmine import DeleteItem, MemoryItem, PutItem
from jazzmine.errors import ConfigurationError
from jazzmine.sync import LongTermMemoryStore, MessageStore
from tests.backends.postgres_samples import bound, config, conversation, message, trace
from tests.servers import mongodb, postgres

Admin = psycopg.Connection[Any]
WORD = "open-sesame"
TABLES = ["conversations", "messages", "turn_traces"]


@pytest.fixture
def schema() -> Iterator[str]:
    with postgres.new_schema() as name:
        yield name


@pytest.fixture
def stored(schema: str) -> None:
    with MessageStore.initialize(config(schema)) as store:
        store.store_conversation(conversation())
        store.store_messages([message(f"m{n}") for n in range(5)])
        store.store_turn_trace(trace("m1"))
    with LongTermMemoryStore.initialize(config(schema)) as items:
        for count in range(5):
            items.put(item(n=count))


@pytest.fixture
def of_role(admin: Admin, schema: str, stored: None) -> Iterator[dict[str, object]]:
    """The configuration for a role with the rights that the documentation names."""
    role = f"jazzmine_test_{uuid4().hex[:8]}"
    rights = "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA $schema"
    admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{WORD}'".encode())
    for right in ("USAGE ON SCHEMA $schema", rights, "UPDATE ON $schema.memory_item_revisions"):
        admin.execute(bound(f"GRANT {right} TO {role}", schema))
    yield config(schema, dsn=postgres.changed(postgres.dsn(), user=role, password=WORD))
    admin.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())
    admin.execute(f"DROP OWNED BY {role} CASCADE".encode())
    admin.execute(f"DROP ROLE {role}".encode())


def item(**value: Any) -> MemoryItem:
    return MemoryItem(namespace=("n",), key="k", value=value)


def named(error: pytest.ExceptionInfo[ConfigurationError], begin: str) -> bytes:
    """Return the statement that the text of an error ends with."""
    found = re.search(rf"{begin} .*", str(error.value))
    assert found is not None
    return found[0].encode()


@pytest.mark.parametrize("table", TABLES)
def test_a_role_that_may_not_set_a_sequence_is_told_the_statement(
    admin: Admin, schema: str, of_role: dict[str, object], table: str
) -> None:
    admin.execute(bound(f"ALTER TABLE $schema.{table} ALTER seq RESTART", schema))
    with pytest.raises(ConfigurationError, match=f"the table {table} .* copied") as caught:
        MessageStore.initialize(of_role)
    admin.execute(named(caught, "SELECT"))
    with MessageStore.initialize(of_role) as store:
        store.store_message(message("new"))
        found = store.get_messages_by_conversation_id("c1")
    assert [one.id for one in found] == ["m0", "m1", "m2", "m3", "m4", "new"]


@pytest.mark.parametrize("table", TABLES)
def test_a_role_that_may_not_read_a_sequence_is_told_the_grant(
    admin: Admin, schema: str, of_role: dict[str, object], table: str
) -> None:
    admin.execute(bound(f"REVOKE ALL ON SEQUENCE $schema.{table}_seq_seq FROM PUBLIC", schema))
    with pytest.raises(ConfigurationError, match=table) as caught:
        MessageStore.initialize(of_role)
    admin.execute(named(caught, "GRANT"))
    MessageStore.initialize(of_role).close()


def test_revisions_go_on_after_those_of_copied_items(
    admin: Admin, schema: str, of_role: dict[str, object]
) -> None:
    admin.execute(bound("ALTER SEQUENCE $schema.memory_item_revisions RESTART", schema))
    with LongTermMemoryStore.initialize(of_role) as store:
        before = store.get(("n",), "k")
        assert before is not None
        assert store.put(item(n=9)).revision > before.revision


def test_a_role_that_may_not_read_the_sequence_of_revisions_is_told_the_grant(
    admin: Admin, schema: str, of_role: dict[str, object]
) -> None:
    statement = "REVOKE SELECT ON SEQUENCE $schema.memory_item_revisions FROM PUBLIC"
    admin.execute(bound(statement, schema))
    with pytest.raises(ConfigurationError, match="memory_items") as caught:
        LongTermMemoryStore.initialize(of_role)
    admin.execute(named(caught, "GRANT"))
    LongTermMemoryStore.initialize(of_role).close()


@pytest.mark.parametrize("revision", [1, 100_000])
def test_revisions_on_mongodb_go_on_after_those_of_items_that_were_copied_without_the_counter(
    revision: int,
) -> None:
    with (
        mongodb.database() as configuration,
        LongTermMemoryStore.initialize(configuration) as store,
    ):
        store.put(item(n=1))
        database = mongodb.client(str(configuration["uri"]))[str(configuration["db"])]
        database["memory_items"].update_one({}, {"$set": {"revision": revision}})
        database.drop_collection("memory_item_revisions")

        other = MemoryItem(namespace=("n",), key="l", value={})
        changed, _, _ = store.apply([PutItem(item(n=2)), PutItem(other), DeleteItem(("n",), "x")])

        assert isinstance(changed, MemoryItem)
        assert changed.revision > revision
        assert store.get(("n",), "k") == changed
