"""Working memory in PostgreSQL over networks and servers that fail."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest

from jazzmine.core.working_memory import WorkingMemory
from jazzmine.errors import StoreUnavailableError
from jazzmine.records.memory_json import to_json
from tests.backends.memory_tables import APIS, PostgresRows, open_sync
from tests.faults.sizes import LENIENCE, TOLERANCE
from tests.servers import postgres
from tests.servers.proxy import Proxy


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
