"""One writer at a time in tables: processes that stop, die, fork or are greedy, in SQL."""

from __future__ import annotations

import json
import os
import signal
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from jazzmine.errors import LockLostError, LockTimeoutError, StoreClosedError
from tests.backends.memory_processes import line_from, process, send_line, stop
from tests.backends.memory_tables import APIS, BACKENDS, Config, Rows, open_sync, opened_backend
from tests.faults.sizes import LENIENCE
from tests.servers import pgbouncer
from tests.servers.redis import eventually


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Config, Rows]]:
    if request.param == "pgbouncer" and pgbouncer.MISSING:
        pytest.skip(pgbouncer.MISSING)
    with opened_backend(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def config(backend: tuple[Config, Rows]) -> Config:
    return backend[0]


@pytest.fixture
def rows(backend: tuple[Config, Rows]) -> Rows:
    return backend[1]


@pytest.fixture
def open_store(api: Any, config: Config) -> Iterator[Callable[..., Any]]:
    """Opens stores of an API on the same data."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(api(config, **options))


def wait_until_queued(rows: Rows, count: int) -> None:
    eventually(lambda: len(rows.queue()) == count)


def test_each_lock_has_a_token_of_its_own(open_store: Callable[..., Any], rows: Rows) -> None:
    store = open_store()
    store.get_or_create("c", "user", "agent")

    with store.locked("c"):
        first = rows.holder()
    with store.locked("c"):
        second = rows.holder()

    assert first is not None
    assert second is not None
    assert first != second
    assert rows.holder() is None


def test_a_stopped_holder_cannot_write_over_what_came_after_it(
    open_store: Callable[..., Any], config: Config
) -> None:
    store = open_store(lock_timeout=5)
    store.get_or_create("c", "user", "agent")
    with process("hold", {**config, "lock_timeout": 0.4}) as holder:
        assert line_from(holder) == "held"
        stop(holder)

        newer = store.end_turn("c", "the newer one", "newer")
        os.kill(holder.pid, signal.SIGCONT)
        send_line(holder)
        said = line_from(holder)

    assert said == "LockLostError"
    assert store.get("c") == newer


def test_a_holder_that_was_killed_blocks_no_other_for_longer_than_its_lock_lasts(
    open_store: Callable[..., Any], config: Config
) -> None:
    store = open_store(lock_timeout=5)
    store.get_or_create("c", "user", "agent")
    with process("hold", {**config, "lock_timeout": 0.5}) as holder:
        assert line_from(holder) == "held"
        holder.kill()
    started = time.monotonic()

    store.end_turn("c", "Hello", "greet")

    assert time.monotonic() - started < 2 + LENIENCE


def test_what_a_killed_process_has_saved_is_kept(
    open_store: Callable[..., Any], config: Config
) -> None:
    store = open_store(lock_timeout=5)
    store.get_or_create("c", "user", "agent")
    with process("count", {**config, "lock_timeout": 1}) as counting:
        while int(line_from(counting)) < 50:
            pass
        counting.kill()
        assert counting.stdout is not None
        told = [int(line) for line in counting.stdout.read().splitlines() if line]

    assert store.end_turn("c", "Hello", "greet").revision > max(told, default=50)


def test_a_store_that_is_closed_in_its_own_block_releases_the_lock(
    api: Any, config: Config, rows: Rows
) -> None:
    with api(config) as store:
        store.get_or_create("c", "user", "agent")
        block = store.locked("c")
        block.__enter__().end_turn("Hello", "greet")
        held = rows.holder()

        store.close()

        released = rows.holder() is None
        with pytest.raises(StoreClosedError):
            block.__exit__(None, None, None)

    assert held is not None
    assert released


def test_a_lock_that_is_not_free_in_time_raises_with_the_conversation_and_the_time(
    open_store: Callable[..., Any], rows: Rows
) -> None:
    open_store().get_or_create("c", "user", "agent")
    store = open_store(lock_timeout=0.3)
    rows.take_lock("another.1")
    started = time.monotonic()

    with pytest.raises(LockTimeoutError, match=r"'c'.*0\.3 s"):
        store.end_turn("c", "Hello", "greet")

    assert 0.3 <= time.monotonic() - started < 2 + LENIENCE
    assert rows.holder() == "another.1"
    assert rows.queue() == []


def test_a_lock_that_was_taken_away_lets_no_write_through(
    open_store: Callable[..., Any], rows: Rows
) -> None:
    store = open_store()
    store.get_or_create("c", "user", "agent")

    def lose_it() -> None:
        with store.locked("c") as memory:
            rows.take_lock("another.1")
            memory.end_turn("Hello", "greet")

    with pytest.raises(LockLostError, match="'c'"):
        lose_it()

    assert rows.holder() == "another.1"
    assert store.get("c").revision == 1


def test_a_lock_that_has_expired_lets_no_write_through(
    open_store: Callable[..., Any], rows: Rows
) -> None:
    store = open_store()
    store.get_or_create("c", "user", "agent")

    def lose_it() -> None:
        with store.locked("c") as memory:
            rows.take_lock(rows.holder(), -1)
            memory.end_turn("Hello", "greet")

    with pytest.raises(LockLostError, match="expired"):
        lose_it()

    assert store.end_turn("c", "Hello", "greet").revision == 2


def test_a_deletion_under_a_lock_that_was_taken_away_deletes_nothing(
    open_store: Callable[..., Any], rows: Rows
) -> None:
    open_store().get_or_create("c", "user", "agent")
    store = open_store(lock_timeout=0.2)
    rows.take_lock("another.1")

    with pytest.raises(LockTimeoutError):
        store.delete("c")

    assert rows.holder() == "another.1"
    assert store.get("c") is not None


def test_a_lock_whose_release_was_lost_does_not_delay_its_own_process(
    open_store: Callable[..., Any], rows: Rows
) -> None:
    store = open_store(lock_timeout=2)
    store.get_or_create("c", "user", "agent")
    with store.locked("c"):
        token = rows.holder()
    rows.take_lock(token)

    assert store.end_turn("c", "Hello", "greet").revision == 3


def test_a_long_block_keeps_its_lock_and_ends_its_thread(config: Config, rows: Rows) -> None:
    with open_sync(config, lock_timeout=1) as store:
        store.get_or_create("c", "user", "agent")
        threads = threading.active_count()

        with store.locked("c") as memory:
            token = rows.holder()
            time.sleep(1.5)
            token_later = rows.holder()
            memory.end_turn("Hello", "greet")

        assert threading.active_count() == threads
        assert token == token_later
        assert store.get("c").revision == 2


def test_a_waiting_call_notices_a_lock_that_ended_without_a_message(
    open_store: Callable[..., Any], rows: Rows
) -> None:
    store = open_store()
    store.get_or_create("c", "user", "agent")
    rows.take_lock("another.1")
    threading.Timer(0.3, lambda: rows.take_lock(None)).start()
    started = time.monotonic()

    store.end_turn("c", "Hello", "greet")

    assert 0.25 < time.monotonic() - started < 3 + LENIENCE


def test_processes_lose_no_update_and_get_the_lock_in_turn(config: Config) -> None:
    with ExitStack() as stack, open_sync(config) as store:
        store.get_or_create("c", "user", "agent")
        updaters = [
            stack.enter_context(process("update", config, "25", f"process {n}")) for n in range(4)
        ]
        assert [line_from(updater) for updater in updaters] == ["ready"] * 4
        for updater in updaters:
            send_line(updater)
        spans = sorted(span for updater in updaters for span in json.loads(line_from(updater)))
        last = store.get("c").revision

    assert last == 101
    assert [revision for revision, *_ in spans] == list(range(1, last))
    assert all(left < entered for (*_, left), (_, _, entered, _) in pairwise(spans))
    # While all of them still have something to do, none of them falls behind.
    shares = Counter(name for _, name, *_ in spans[10:60])
    assert len(shares) == 4
    assert max(shares.values()) <= 3 * min(shares.values())


def test_stores_get_a_lock_in_the_order_of_their_calls(config: Config, rows: Rows) -> None:
    with ExitStack() as stack:
        stores = [stack.enter_context(open_sync(config)) for _ in range(5)]
        stores[0].get_or_create("c", "user", "agent")
        order: list[int] = []

        def update(number: int) -> None:
            with stores[number].locked("c"):
                order.append(number)

        threads = [threading.Thread(target=update, args=(number,)) for number in range(1, 5)]
        with stores[0].locked("c"):
            for count, thread in enumerate(threads, start=1):
                thread.start()
                wait_until_queued(rows, count)
        again = threading.Thread(target=update, args=(0,))  # the one that has just let go
        again.start()
        for thread in [*threads, again]:
            thread.join()

        assert order[:4] == [1, 2, 3, 4]


def test_a_process_that_takes_the_lock_again_at_once_keeps_no_other_out(
    open_store: Callable[..., Any], config: Config
) -> None:
    store = open_store(lock_timeout=5)
    store.get_or_create("c", "user", "agent")
    with process("update", config, "5000", "greedy") as greedy:
        assert line_from(greedy) == "ready"
        send_line(greedy)
        eventually(lambda: store.get("c").revision > 10)
        between = []
        for _ in range(10):
            before = store.get("c").revision
            between.append(store.end_turn("c", "Hello", "greet").revision - before)

    assert statistics.median(between) <= 8


def test_a_waiting_process_that_was_stopped_holds_the_queue_up_for_a_moment_only(
    open_store: Callable[..., Any], config: Config, rows: Rows
) -> None:
    store = open_store()
    store.get_or_create("c", "user", "agent")
    with ExitStack() as stack:
        with store.locked("c"):
            waiting = stack.enter_context(process("wait", config))
            os.waitpid(waiting.pid, os.WUNTRACED)  # until it is suspended
            assert len(rows.queue()) == 1
        started = time.monotonic()

        updated = store.end_turn("c", "Hello", "greet")

        assert updated.revision == 3
        assert time.monotonic() - started < 4 + LENIENCE


def test_a_process_that_is_forked_in_a_block_saves_nothing(config: Config) -> None:
    with open_sync(config) as store:
        store.get_or_create("c", "user", "agent")
        read, write = os.pipe()
        child = -1
        try:
            with store.locked("c") as memory:
                child = os.fork()
                memory.end_turn("of the child" if child == 0 else "of the parent", "late")
        except LockLostError:
            os.write(write, b"lost")
        finally:
            if child == 0:
                os._exit(0)
        os.waitpid(child, 0)

        assert os.read(read, 4) == b"lost"
        assert store.get("c").last_agent_response == "of the parent"
        assert store.end_turn("c", "Hello", "greet").revision == 3
    os.close(read)
    os.close(write)


def test_a_forked_process_uses_the_store_as_well(config: Config) -> None:
    with open_sync(config) as store:
        store.get_or_create("c", "user", "agent")

        child = os.fork()
        if child == 0:
            try:
                store.end_turn("c", "of the child", "greet")
            finally:
                os._exit(0)
        os.waitpid(child, 0)

        assert store.end_turn("c", "of the parent", "greet").revision == 3


def test_threads_lose_no_update_of_one_conversation(config: Config) -> None:
    with open_sync(config) as store:
        store.get_or_create("c", "user", "agent")

        def update() -> None:
            for _ in range(10):
                store.end_turn("c", "Hello", "greet")

        threads = [threading.Thread(target=update) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert store.get("c").revision == 81
