"""Working memory in PostgreSQL over networks and servers that fail."""

from __future__ import annotations

import itertools
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from jazzmine.core.working_memory import WorkingMemory
from jazzmine.errors import StoreUnavailableError
from jazzmine.records.memory_json import to_json
from tests.backends.memory_tables import APIS, PostgresRows, open_sync
from tests.faults.sizes import LENIENCE, TOLERANCE
from tests.servers import postgres
from tests.servers.proxy import Proxy

# The tables of version 1.2, without the functions and indexes that were used for locks alone.
VERSION_1_2 = (
    """
    CREATE TABLE working_memory (
        conversation_id text        COLLATE "C" PRIMARY KEY,
        format          integer,
        expires_at      timestamptz NOT NULL DEFAULT '-infinity',
        sweep_after     timestamptz NOT NULL,
        lock_expires_at timestamptz NOT NULL DEFAULT '-infinity',
        lock_token      text,
        user_id         text,
        queue           jsonb       NOT NULL DEFAULT '{}',
        results         jsonb       NOT NULL DEFAULT '{}',
        data            bytea
    ) WITH (fillfactor = 50)
    """,
    "CREATE INDEX idx_wm_sweep ON working_memory (sweep_after)",
    "CREATE INDEX idx_wm_user ON working_memory (user_id) WHERE user_id IS NOT NULL",
    """
    CREATE TABLE working_memory_corrupt (
        conversation_id text        COLLATE "C" PRIMARY KEY,
        user_id         text,
        expires_at      timestamptz NOT NULL,
        data            bytea
    )
    """,
)


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def rows(schema: str) -> PostgresRows:
    return PostgresRows(schema)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy(postgres.port_of(postgres.dsn())) as opened:
        yield opened


@pytest.fixture
def open_store(api: Any, schema: str) -> Iterator[Callable[..., Any]]:
    """Opens stores of an API on the same schema, by default without a proxy."""
    with ExitStack() as stack:
        base = {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema, "timeout": 10}
        yield lambda **options: stack.enter_context(api(base, **options))


def test_the_numbers_of_writers_do_not_pile_up(
    open_store: Callable[..., Any], rows: PostgresRows
) -> None:
    """Each store has one, and none after the time in which a call may repeat its request."""
    store, writers = open_store(), "SELECT writers FROM working_memory"
    store.get_or_create("c", "user", "agent")
    for _ in range(3):
        for other in (open_store(), store):
            other.end_turn("c", "Hello", "greet")
    [(before,)] = rows.run(writers)
    outlived = {name: [number, 0] for name, (number, _) in before.items()}
    rows.run("UPDATE working_memory SET writers = ?::jsonb", json.dumps(outlived))

    store.end_turn("c", "Hello", "greet")

    [(after,)] = rows.run(writers)
    assert (len(before), len(after)) == (4, 1)


def test_a_deletion_leaves_a_tombstone_for_a_while(
    open_store: Callable[..., Any], rows: PostgresRows
) -> None:
    store = open_store(timeout=10)
    store.get_or_create("c", "user", "agent")

    store.delete("c")

    [(user, data, lasting)] = rows.run(
        "SELECT user_id, data, extract(epoch FROM expires_at - now())::float8 FROM working_memory"
    )
    assert (user, data) == (None, None)
    assert 19 < lasting <= 20


def test_states_that_version_1_2_stored_are_read(schema: str) -> None:
    rows = PostgresRows(schema)
    for table in ("working_memory", "working_memory_corrupt", "jazzmine_memory_migrations"):
        rows.run(f"DROP TABLE IF EXISTS {table}")
    rows.run(
        "CREATE TABLE jazzmine_memory_migrations (version integer PRIMARY KEY, name text NOT NULL,"
        " applied_at timestamptz NOT NULL DEFAULT now())"
    )
    rows.run("INSERT INTO jazzmine_memory_migrations VALUES (1, 'working_memory')")
    for statement in VERSION_1_2:
        rows.run(statement)
    memory = WorkingMemory("c", "user", "agent", revision=3)
    rows.run(
        "INSERT INTO working_memory VALUES ('c', 1, now() + interval '1 hour', now(),"
        " '-infinity', NULL, 'user', '{}', '{}', ?)",
        to_json(memory),
    )

    with open_sync(rows.config) as store:
        assert store.get("c") == memory
        assert store.end_turn("c", "Hello", "greet").revision == 4
        assert store.erase_user("user") == 1


def test_a_silent_server_ends_a_call_at_its_deadline(
    open_store: Callable[..., Any], proxy: Proxy
) -> None:
    dsn = postgres.changed(postgres.dsn(), port=proxy.port)
    timeout = 1.5 + LENIENCE
    store = open_store(dsn=dsn, timeout=timeout, lock_timeout=1)
    store.get_or_create("c", "user", "agent")
    proxy.swallow_replies = True
    started = time.monotonic()

    with pytest.raises(StoreUnavailableError):
        store.end_turn("c", "Hello", "greet")

    assert time.monotonic() - started < timeout + 0.5 + TOLERANCE


def test_a_block_that_ends_during_a_stuck_renewal_does_not_wait_for_it(
    open_store: Callable[..., Any], proxy: Proxy
) -> None:
    dsn = postgres.changed(postgres.dsn(), port=proxy.port)
    store = open_store(dsn=dsn, timeout=1, lease_seconds=10)
    store.get_or_create("c", "user", "agent")
    updates = getattr(store, "store", store)._updates
    updates._config = replace(updates._config, lease_seconds=0.3)
    started = time.monotonic()

    def change() -> None:
        with store.locked("c") as memory:
            proxy.swallow_replies = True
            time.sleep(0.2)
            memory.end_turn("Hello", "greet")

    with pytest.raises(StoreUnavailableError):
        change()

    assert time.monotonic() - started < 0.2 + 1 + 0.5 + TOLERANCE


def test_what_was_saved_is_kept_when_the_server_is_killed(api: Any) -> None:
    with postgres.Server("18", fsync=True) as server, ExitStack() as stack:
        store = stack.enter_context(
            api({"storage": "postgres", "dsn": server.dsn}, timeout=30, lock_timeout=5)
        )
        store.get_or_create("c", "user", "agent")
        over = threading.Event()

        def kill() -> None:
            try:
                for _ in range(3):
                    time.sleep(0.3)
                    server.stop(signal.SIGQUIT)
                    server.start()
            finally:
                over.set()

        helper = threading.Thread(target=kill)
        helper.start()
        revisions = []
        for number in itertools.count():
            if over.is_set():
                break
            revisions.append(store.end_turn("c", f"reply {number}", "greet").revision)
        helper.join()

        stored = store.get("c")
    assert len(revisions) > 3
    assert revisions == list(range(2, len(revisions) + 2))
    assert stored.revision == revisions[-1]
