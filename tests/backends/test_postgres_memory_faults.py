"""Working memory in PostgreSQL over networks and servers that fail."""

from __future__ import annotations

import itertools
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from jazzmine.core.working_memory import TurnCache, WorkingMemory
from jazzmine.errors import (
    LockLostError,
    StaleWorkingMemoryError,
    StoreUnavailableError,
)
from tests.backends.memory_tables import APIS, Config, PostgresRows, open_sync
from tests.backends.without_polling import never_poll
from tests.faults.sizes import LENIENCE
from tests.servers import postgres
from tests.servers.proxy import Proxy
from tests.servers.redis import eventually

Call = Callable[[Any, WorkingMemory], Any]  # with what was read before


def turn_in_a_block(store: Any, read: WorkingMemory) -> None:
    with store.locked("c") as memory:
        memory.begin_turn(TurnCache(1, intent="ask"))
        memory.end_turn("Hello", "greet")


def stale_save(store: Any, read: WorkingMemory) -> None:
    read.revision = 17
    with pytest.raises(StaleWorkingMemoryError, match="revision"):
        store.save(read)


CALLS: dict[str, Call] = {
    "get": lambda store, read: store.get("c"),
    "get_or_create": lambda store, read: store.get_or_create("another", "user", "agent"),
    "begin_turn": lambda store, read: store.begin_turn("c", TurnCache(1, intent="ask")),
    "a transition that changes nothing": lambda store, read: store.confirm_action("c"),
    "locked": turn_in_a_block,
    "save": lambda store, read: store.save(read),
    "a save that is refused": stale_save,
    "delete": lambda store, read: store.delete("c"),
    "active_count": lambda store, read: store.active_count(),
}
ROUND_TRIPS = {
    "get": 1,
    "get_or_create": 3,
    "begin_turn": 2,
    "a transition that changes nothing": 2,
    "locked": 2,
    "save": 2,
    "a save that is refused": 2,
    "delete": 2,
    "active_count": 1,
}


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def schema() -> Iterator[str]:
    with postgres.empty_schema() as name:
        yield name


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


@pytest.fixture
def store(open_store: Callable[..., Any], proxy: Proxy) -> Any:
    """A store over the proxy, whose connections know all statements."""
    dsn = postgres.changed(postgres.dsn(), port=proxy.port)
    store = open_store(dsn=dsn, pool_min=1, pool_max=1)
    for conversation_id in ("c", "another"):
        store.get_or_create(conversation_id, "user", "agent")
        store.get_or_create(conversation_id, "user", "agent")
        store.confirm_action(conversation_id)
        store.delete(conversation_id)
    store.get_or_create("c", "user", "agent")
    store.get("c")
    store.active_count()
    return store


@pytest.mark.parametrize("name", CALLS)
def test_a_call_takes_so_many_round_trips(store: Any, proxy: Proxy, name: str) -> None:
    read = store.get("c")
    before = proxy.round_trips

    CALLS[name](store, read)

    assert proxy.round_trips - before == ROUND_TRIPS[name]


@pytest.mark.parametrize(
    ("name", "number"), [(name, n + 1) for name in CALLS for n in range(ROUND_TRIPS[name])]
)
def test_a_call_whose_reply_is_lost_ends_as_though_it_had_come(
    store: Any, proxy: Proxy, rows: PostgresRows, name: str, number: int
) -> None:
    read = store.get("c")
    revision = read.revision
    changes = name in ("begin_turn", "locked", "save")
    proxy.lose_reply(number)

    CALLS[name](store, read)

    assert proxy.lost == 1
    assert rows.run("SELECT 1 FROM working_memory WHERE lock_token IS NOT NULL") == []
    stored = store.get("c")
    if name == "delete":
        assert stored is None
    else:
        assert stored.revision == revision + changes


def test_a_delete_whose_reply_is_lost_still_says_that_there_was_something(
    store: Any, proxy: Proxy
) -> None:
    proxy.lose_reply(2)

    assert store.delete("c") is True
    assert store.delete("c") is False


def test_a_write_is_not_repeated_over_a_newer_one(
    store: Any, proxy: Proxy, open_store: Callable[..., Any]
) -> None:
    """The reply to a save is lost, and before it is repeated another store saves as well."""
    with ExitStack() as stack:
        other = stack.enter_context(open_sync(_config(open_store(), store)))
        proxy.on_loss = lambda: other.end_turn("c", "theirs", "newer")
        proxy.lose_reply(2)

        mine = store.end_turn("c", "mine", "older")

        stored = other.get("c")
    assert mine.last_agent_response == "mine"
    assert (stored.last_agent_response, stored.revision) == ("theirs", mine.revision + 1)


def _config(direct: Any, store: Any) -> Config:
    config = getattr(direct, "store", direct)._client._config
    return {"storage": "postgres", "dsn": config.dsn, "schema": config.schema}


def test_a_request_for_a_lock_that_comes_late_gets_none(
    open_store: Callable[..., Any], rows: PostgresRows
) -> None:
    """Its token was released, or used, while it was on its way."""
    store = open_store()
    store.get_or_create("c", "user", "agent")
    with store.locked("c"):
        token = rows.holder()
    take = "SELECT wait_ms FROM jazzmine_memory_take('c', ?, 60000, '', 1, false)"

    assert rows.run(take, token) == [(0,)]

    assert rows.holder() is None
    assert rows.queue() == []
    assert store.end_turn("c", "Hello", "greet").revision == 3


def test_a_release_that_overtakes_its_request_for_the_lock_wins(
    open_store: Callable[..., Any], rows: PostgresRows
) -> None:
    open_store()
    rows.run("SELECT jazzmine_memory_release('c', 'store.7', 60000)")

    assert rows.run(
        "SELECT wait_ms FROM jazzmine_memory_take('c', 'store.7', 60000, '', 0, false)"
    ) == [(0,)]
    assert rows.holder() is None


def test_the_results_of_tokens_do_not_pile_up(
    open_store: Callable[..., Any], rows: PostgresRows
) -> None:
    """Each store has one, and none after the time in which a call may repeat its request."""
    store, results = open_store(), "SELECT results FROM working_memory"
    store.get_or_create("c", "user", "agent")
    for _ in range(3):
        for other in (open_store(), store):
            other.end_turn("c", "Hello", "greet")
    [(before,)] = rows.run(results)
    outlived = {name: [number, result, 0] for name, (number, result, _) in before.items()}
    rows.run("UPDATE working_memory SET results = ?::jsonb", json.dumps(outlived))

    store.end_turn("c", "Hello", "greet")

    [(after,)] = rows.run(results)
    assert (len(before), len(after)) == (4, 1)


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

    assert time.monotonic() - started < timeout + 0.5 + LENIENCE


def test_the_end_of_a_lock_wakes_a_waiting_call_in_another_process(
    open_store: Callable[..., Any],
    schema: str,
    rows: PostgresRows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    never_poll(monkeypatch)
    store = open_store()
    store.get_or_create("c", "user", "agent")
    freed = []
    config = {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema}
    with ExitStack() as stack:
        other = stack.enter_context(open_sync(config))
        held, waits = threading.Event(), threading.Event()

        def hold() -> None:
            with other.locked("c"):
                held.set()
                waits.wait()
                freed.append(time.monotonic())

        def let_go() -> None:
            wait_until_queued(rows)
            waits.set()

        helper = threading.Thread(target=hold)
        helper.start()
        held.wait()
        threading.Thread(target=let_go).start()
        store.end_turn("c", "Hello", "greet")
        waited = time.monotonic()
        helper.join()

    assert waited - freed[0] < 0.2 + LENIENCE


def wait_until_queued(rows: PostgresRows) -> None:
    eventually(lambda: len(rows.queue()) == 1)


def listening(schema: str) -> int:
    with postgres.connect(postgres.dsn()) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN jazzmine_memory_%'"
        ).fetchone()
    assert found is not None
    return int(found[0])


def test_a_connection_listens_only_while_calls_wait(
    open_store: Callable[..., Any], schema: str, rows: PostgresRows
) -> None:
    eventually(lambda: listening(schema) == 0)
    store = open_store()
    store.get_or_create("c", "user", "agent")
    store.end_turn("c", "Hello", "greet")
    before = listening(schema)
    rows.take_lock("another.1")
    seen = []

    def free() -> None:
        eventually(lambda: len(rows.queue()) == 1)
        seen.append(listening(schema))
        rows.take_lock(None)

    helper = threading.Thread(target=free)
    helper.start()
    store.end_turn("c", "Hello", "greet")
    helper.join()

    assert before == 0
    assert seen == [1]


def test_waiting_goes_on_when_the_connection_that_listens_is_lost(
    open_store: Callable[..., Any], rows: PostgresRows
) -> None:
    store = open_store()
    store.get_or_create("c", "user", "agent")
    rows.take_lock("another.1")

    def cut() -> None:
        eventually(lambda: len(rows.queue()) == 1)
        with postgres.connect(postgres.dsn()) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE query LIKE 'LISTEN jazzmine_memory_%'"
            )
        rows.take_lock(None)

    helper = threading.Thread(target=cut)
    helper.start()
    started = time.monotonic()
    updated = store.end_turn("c", "Hello", "greet")
    helper.join()

    assert updated.revision == 2
    assert time.monotonic() - started < 4


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
            # A lock that was lost in a crash lets its holder write nothing.
            with suppress(LockLostError):
                revisions.append(store.end_turn("c", f"reply {number}", "greet").revision)
        helper.join()

        stored = store.get("c")
    assert len(revisions) > 3
    assert revisions == list(range(2, len(revisions) + 2))
    assert stored.revision == revisions[-1]
