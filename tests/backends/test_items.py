"""Long-term memory on single back ends: round trips, shared databases, indexes, large items."""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import ValidationError

from jazzmine import DeleteItem, MemoryItem, PutItem, RecordTooLargeError
from jazzmine.backends.postgres import items as postgres_items
from jazzmine.backends.postgres.schema import in_schema
from jazzmine.config import PostgresConfig, SQLiteConfig, long_term_memory_config
from jazzmine.errors import ConfigurationError, InvalidAddressError
from jazzmine.records.item_paths import namespace_path
from jazzmine.records.item_rows import Cursor, ItemQuery
from jazzmine.sync.long_term_memory import InMemoryLongTermMemoryStore, LongTermMemoryStore
from tests.faults.networks import NETWORKS
from tests.servers import postgres

Config = dict[str, object]


def item(key: str = "k", **fields: Any) -> MemoryItem:
    return MemoryItem(**{"namespace": ("n", "m"), "key": key, "value": {"text": "tea"}, **fields})


CALLS: dict[str, Any] = {
    "put": lambda store: store.put(item(data=b"x" * 10_000)),
    "put what expects nothing": lambda store: store.put(item("new"), expected_revision=None),
    "apply": lambda store: store.apply(
        [PutItem(item()), DeleteItem(("n",), "x"), PutItem(item("l"))]
    ),
    "get": lambda store: store.get(("n", "m"), "k"),
    "get_many": lambda store: store.get_many([(("n", "m"), "k"), (("n", "m"), "l")]),
    "list_items": lambda store: store.list_items(("n",), where={"text": "tea"}, limit=10),
    "list_namespaces": lambda store: store.list_namespaces(("n",)),
    "delete": lambda store: store.delete(("n", "m"), "k"),
    "ping": lambda store: store.ping(),
}


def test_a_call_is_one_round_trip_on_postgresql() -> None:
    with (
        NETWORKS["postgres"]() as network,
        # Another connection would be set up, and prepare the statements, by itself.
        LongTermMemoryStore.initialize({**network.through, "pool_max": 1}) as store,
    ):
        store.put(item())
        trips = {}
        for name, call in CALLS.items():
            call(store)
            store.delete(("n", "m"), "new")
            before = network.proxy.round_trips
            call(store)
            trips[name] = network.proxy.round_trips - before

    # A change that must not be sent twice tries the connection first.
    more = {name: trips.pop(name) for name in ("put what expects nothing", "apply")}
    assert trips == dict.fromkeys(trips, 1)
    assert {*more.values()} <= {1, 2}


# What cannot be stored, and what cannot be read


@pytest.mark.parametrize("kind", ["postgres", "mongodb"])
def test_an_item_that_is_too_large_is_refused(kind: str) -> None:
    with NETWORKS[kind]() as network, LongTermMemoryStore.initialize(network.beside) as store:
        kept = store.put(item())
        # PostgreSQL has the path in an index, MongoDB limits the document.
        names = "".join(chr(0x4E00 + n) for n in range(6_000))
        large = item(names) if kind == "postgres" else item(data=bytes(17 << 20))

        with pytest.raises(RecordTooLargeError):
            store.apply([PutItem(item("other")), PutItem(large)])

        assert store.list_items() == [kept]


def test_a_row_that_cannot_be_read_hides_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "agent.db"
    with LongTermMemoryStore.initialize(f"sqlite:{path}") as store:
        stored = [store.put(item(f"{number}")) for number in range(6)]
        with closing(sqlite3.connect(path)) as connection, connection:
            for wrong, key in (("[1]", "1"), ("{", "2"), ('{"a": 1e999}', "4")):
                connection.execute(
                    "UPDATE stored_items SET value = ? WHERE path LIKE ?", [wrong, f"%{key}"]
                )

        with caplog.at_level(logging.ERROR):
            page = store.list_items(limit=2)

        assert page == [stored[0], stored[3]]
        assert store.list_items(limit=2, after=page[-1]) == [stored[5]]
        assert "n/m/1" in caplog.text
        assert store.get_many([(("n", "m"), "1"), (("n", "m"), "5")]) == [None, stored[5]]
        assert len(store.search_items("tea")) == 3
        with pytest.raises(ValidationError, match="n/m/1"):
            store.get(("n", "m"), "1")
        assert store.put(item("1")).key == "1"


def test_the_view_of_sqlite_shows_namespace_and_key(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with LongTermMemoryStore.initialize(f"sqlite:{path}") as store:
        store.put(item(user_id="ann"))

    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT namespace, key, json_extract(value, '$.text'), user_id FROM memory_items"
        assert connection.execute(query).fetchall() == [("n/m", "k", "tea", "ann")]


# Indexes


BEGIN = namespace_path(["n"])
PAGES: list[tuple[str, ItemQuery, Cursor | None]] = [
    ("memory_items_pkey", ItemQuery(), None),
    ("memory_items_pkey", ItemQuery(prefix=BEGIN), None),
    ("memory_items_pkey", ItemQuery(prefix=BEGIN), Cursor(BEGIN, 2**41, 7)),
    ("idx_items_updated", ItemQuery(order="updated"), None),
    ("idx_items_user", ItemQuery(user_id="ann"), None),
    ("idx_items_source", ItemQuery(source_message_id="m1"), None),
]


def test_a_page_is_read_by_index_on_postgresql() -> None:
    with postgres.empty_schema() as schema:
        config = {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema}
        new = [item(f"{n}", namespace=(f"{n % 50}",), user_id=f"u{n}") for n in range(2_000)]
        with LongTermMemoryStore.initialize(config) as store:
            store.apply(map(PutItem, new[:1_000]))
            store.apply(map(PutItem, new[1_000:]))
        analyze(schema)
        for index, query, after in PAGES:
            assert index in plan(schema, *postgres_items.page(query, 20, after))


def plan(schema: str, statement: str, parameters: dict[str, object]) -> str:
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as connection:
        query = in_schema(f"EXPLAIN {statement}", schema)
        rows = connection.execute(query, parameters).fetchall()
    return "\n".join(row[0] for row in rows)


def test_changes_of_a_table_that_grows_read_no_other_items() -> None:
    with postgres.empty_schema() as schema:
        config: Config = {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema}
        stored, read = scanned(schema)
        with LongTermMemoryStore.initialize({**config, "pool_max": 2}) as store:
            for number in range(90):
                first, second = store.apply([PutItem(item(f"{number}")), PutItem(item("same"))])
                assert isinstance(first, MemoryItem)
                assert isinstance(second, MemoryItem)
                store.put(item(f"x{number}"), expected_revision=None)
                store.put(second, expected_revision=second.revision)
                store.renew([first, item(f"x{number}", revision=second.revision + 1)])
                if number == 3:  # its plans are made again, for a table of one page
                    analyze(schema)
                if number == 60:
                    store.apply([PutItem(item(f"more{each}")) for each in range(2_000)])
        # The statistics of a connection are complete when it has ended.
        until = time.monotonic() + 30
        while (now := scanned(schema))[0] < stored + 2_181:
            assert time.monotonic() < until
            time.sleep(0.1)

    # A table of one page is read whole; whoever read all of the larger one would read 60,000.
    assert now[1] - read < 10_000


def analyze(schema: str) -> None:
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as connection:
        connection.execute(f'ANALYZE "{schema}".memory_items'.encode())


def scanned(schema: str) -> tuple[int, int]:
    """Return how many items were ever stored, and how many were read by scans of the table."""
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as connection:
        rows = connection.execute(
            "SELECT n_tup_ins, seq_tup_read FROM pg_stat_user_tables"
            " WHERE schemaname = %s AND relname = 'memory_items'",
            [schema],
        ).fetchall()
    return rows[0] if rows else (0, 0)


# Configuration


def test_the_configuration_is_a_mapping_a_url_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("JAZZMINE_LONG_TERM_MEMORY", raising=False)
    with LongTermMemoryStore.initialize() as store:
        assert isinstance(store, InMemoryLongTermMemoryStore)
    assert long_term_memory_config("sqlite:a.db?timeout=5") == SQLiteConfig("a.db", timeout=5.0)
    monkeypatch.setenv("JAZZMINE_LONG_TERM_MEMORY", "postgresql://h/d?schema=s")
    assert long_term_memory_config(None) == PostgresConfig("postgresql://h/d", schema="s")
    with pytest.raises(InvalidAddressError, match="redis: is no long-term memory"):
        long_term_memory_config("redis://h")
    with pytest.raises(ConfigurationError, match="items have it always"):
        long_term_memory_config("sqlite:a.db?search=true")
    with pytest.raises(ConfigurationError, match="did you mean 'sqlite'"):
        long_term_memory_config({"storage": "sqlit"})
