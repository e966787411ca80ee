"""Migrations refuse to change objects of other applications."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from jazzmine.errors import ConfigurationError
from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore
from tests.backends.postgres_samples import config, conversation
from tests.servers import postgres

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def schema(admin: Connection) -> Iterator[str]:
    with postgres.new_schema() as name:
        admin.execute(f'CREATE SCHEMA "{name}"'.encode())
        yield name


def contents(admin: Connection, schema: str) -> list[tuple[Any, ...]]:
    """All objects in the schema, with the properties that distinguish objects of one name."""
    return admin.execute(
        """
        SELECT relname, relation.oid, attname, format_type(atttypid, NULL),
            pg_get_indexdef(relation.oid)
        FROM pg_class AS relation LEFT JOIN pg_attribute ON attrelid = relation.oid
        WHERE relnamespace = to_regnamespace(%(schema)s)
        UNION ALL
        SELECT proname, oid, prosrc, '', '' FROM pg_proc
        WHERE pronamespace = to_regnamespace(%(schema)s)
        ORDER BY 1, 2, 3
        """,
        {"schema": f'"{schema}"'},
    ).fetchall()


def assert_refused(admin: Connection, schema: str, said: str, kind: Any = MessageStore) -> None:
    before = contents(admin, schema)
    with pytest.raises(ConfigurationError, match=said):
        kind.initialize(config(schema))
    assert contents(admin, schema) == before


TABLE = "TABLE {} (id text PRIMARY KEY, body text)"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("conversations", TABLE),
        ("messages", "VIEW {} AS SELECT 1 AS id"),
        ("messages", "TYPE {} AS (id text)"),
        ("messages", "TYPE {} AS ENUM ('one')"),
        ("idx_msg_conv", TABLE),
        ("idx_tt_tool_gin", "SEQUENCE {}"),
    ],
)
def test_an_object_of_another_application_is_refused(
    admin: Connection, schema: str, name: str, what: str
) -> None:
    place = f'"{schema}".{name}'
    admin.execute(f"CREATE {what.format(place)}".encode())
    assert_refused(admin, schema, rf"\b{name}\b.*nothing was changed")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("working_memory", WorkingMemoryStore), ("memory_items", LongTermMemoryStore)],
)
def test_a_table_of_another_application_is_refused_by_each_kind_of_store(
    admin: Connection, schema: str, name: str, kind: Any
) -> None:
    admin.execute(f'CREATE TABLE "{schema}".{name} (mine int)'.encode())
    assert_refused(admin, schema, rf"\b{name}\b.*nothing was changed", kind)


def test_a_table_of_versions_of_another_application_is_refused(
    admin: Connection, schema: str
) -> None:
    admin.execute(f'CREATE TABLE "{schema}".jazzmine_migrations (id text)'.encode())
    assert_refused(admin, schema, 'column "version" does not exist')


def test_a_function_of_another_application_stays_as_it_is(admin: Connection, schema: str) -> None:
    made = f'"{schema}".jazzmine_append(count integer) RETURNS integer'
    admin.execute(f"CREATE FUNCTION {made} LANGUAGE sql AS 'SELECT 1'".encode())
    before = contents(admin, schema)
    with MessageStore.initialize(config(schema)) as store:
        store.store_conversation(conversation())
    assert set(before) <= set(contents(admin, schema))
