"""Working memory in PostgreSQL over networks and servers that fail."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import pytest

from jazzmine.core.working_memory import WorkingMemory
from jazzmine.records.memory_json import to_json
from tests.backends.memory_tables import PostgresRows, open_sync
from tests.servers import postgres
from tests.servers.proxy import Proxy


@pytest.fixture
def rows(schema: str) -> PostgresRows:
    return PostgresRows(schema)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy(postgres.port_of(postgres.dsn())) as opened:
        yield opened


@pytest.mark.parametrize("version", [1, 2])
def test_states_that_version_1_2_stored_are_read(schema: str, version: int) -> None:
    rows = PostgresRows(schema)
    rows.run(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    for table in ("working_memory", "jazzmine_memory_migrations"):
        rows.run(f"DROP TABLE IF EXISTS {table}")
    rows.run(
        "CREATE TABLE jazzmine_memory_migrations (version integer PRIMARY KEY, name text NOT NULL,"
        " applied_at timestamptz NOT NULL DEFAULT now())"
    )
    scripts = files("jazzmine.backends.postgres") / "memory_migrations"
    for number, name in enumerate(("working_memory", "without_locks")[:version], 1):
        text = (scripts / f"000{number}_{name}.sql").read_text("utf-8")
        rows.run(text.replace("$schema", f'"{schema}"'))
        rows.run("INSERT INTO jazzmine_memory_migrations VALUES (?, ?)", number, name)
    memory = WorkingMemory("c", "user", "agent", revision=3)
    rows.run(
        "INSERT INTO working_memory (conversation_id, format, expires_at, sweep_after, user_id,"
        " data) VALUES ('c', 1, now() + interval '1 hour', now(), 'user', ?),"
        " ('deleted', NULL, now() + interval '1 hour', now(), NULL, NULL)",
        to_json(memory),
    )

    with open_sync(rows.config) as store:
        assert store.get("c") == memory
        assert store.active_count() == 1
        assert store.end_turn("c", "Hello", "greet").revision == 4
        assert store.erase_user("user") == 1
