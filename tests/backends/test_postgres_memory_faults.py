"""Working memory in PostgreSQL over networks and servers that fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

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


@pytest.fixture
def slow_rows(rows: PostgresRows) -> Iterator[PostgresRows]:
    """A state whose updates keep the row locked for a while."""
    with open_sync(rows.config) as store:
        store.get_or_create("c", "user", "agent")
    rows.run(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END'"
    )
    rows.run(
        "CREATE TRIGGER slow AFTER UPDATE ON working_memory FOR EACH ROW EXECUTE FUNCTION wait()"
    )
    yield rows
    rows.run("DROP FUNCTION wait() CASCADE")


def test_a_write_that_is_repeated_while_its_first_attempt_commits_counts_once(
    slow_rows: PostgresRows, proxy: Proxy
) -> None:
    through = postgres.changed(postgres.dsn(), host="127.0.0.1", port=proxy.port)
    with open_sync({**slow_rows.config, "dsn": through}) as store:
        store.get("c")
        threading.Timer(0.1, proxy.cut).start()

        changed = store.set_data("c", paid=True)

    assert proxy.connections > 1
    assert changed.revision == 2
    with open_sync(slow_rows.config) as store:
        assert store.get("c") == changed


def test_two_blocks_that_ask_for_the_lock_at_once_take_turns(slow_rows: PostgresRows) -> None:
    inside: list[int] = []

    def change(number: int) -> None:
        with open_sync(slow_rows.config) as store, store.locked("c") as memory:
            inside.append(number)
            time.sleep(0.2)
            assert inside[-1] == number, "another block began before this one had ended"
            memory.set_data(**{f"block-{number}": True})

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(change, range(3)))

    assert slow_rows.data() is not None
    with open_sync(slow_rows.config) as store:
        memory = store.get("c")
    assert memory is not None
    assert len(memory.data) == 3
