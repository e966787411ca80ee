"""One writer at a time: tasks, threads and processes, also after a holder was suspended."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any

import pytest
import redis

from jazzmine.errors import LockLostError, LockTimeoutError, StoreClosedError
from tests.backends.redis_apis import APIS, open_sync
from tests.servers.redis import database, eventually

LOCK, MEMORY = "wm_lock:{c}", "wm:{c}"


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def url() -> Iterator[str]:
    with database() as opened:
        yield opened


@pytest.fixture
def client(url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(url, decode_responses=True) as opened:
        yield opened


@pytest.fixture
def open_store(api: Any, url: str) -> Iterator[Callable[..., Any]]:
    """Opens stores of an API on the same database."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(api(url, **options))


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.backends.redis_holder", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1) as started:
        try:
            yield started
        finally:
            started.kill()


def line_from(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


def tell(started: subprocess.Popen[str]) -> None:
    assert started.stdin is not None
    started.stdin.write("go\n")
    started.stdin.flush()


def test_the_lock_is_a_key_with_a_token_and_an_expiry(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    store = open_store(lock_timeout=7)
    store.get_or_create("c", "user", "agent")

    with store.locked("c"):
        first = client.get(LOCK)
        expiry = client.pttl(LOCK)
    with store.locked("c"):
        second = client.get(LOCK)

    assert first != second
    assert 6000 < expiry <= 7000
    assert client.get(LOCK) is None


def test_a_stopped_holder_cannot_write_over_what_came_after_it(
    open_store: Callable[..., Any], url: str
) -> None:
    store = open_store(lock_timeout=5)
    store.get_or_create("c", "user", "agent")
    with process("hold", url, "0.4") as holder:
        assert line_from(holder) == "held"
        os.kill(holder.pid, signal.SIGSTOP)

        newer = store.end_turn("c", "the newer one", "newer")
        os.kill(holder.pid, signal.SIGCONT)
        tell(holder)
        said = line_from(holder)

    assert said == "LockLostError"
    assert store.get("c") == newer


def test_a_holder_that_was_killed_blocks_no_other_for_longer_than_its_lock_lasts(
    open_store: Callable[..., Any], url: str
) -> None:
    store = open_store(lock_timeout=5)
    store.get_or_create("c", "user", "agent")
    with process("hold", url, "0.5") as holder:
        assert line_from(holder) == "held"
        holder.kill()
    started = time.monotonic()

    store.end_turn("c", "Hello", "greet")

    assert time.monotonic() - started < 0.8


def test_a_store_that_is_closed_in_its_own_block_releases_the_lock(
    api: Any, url: str, client: redis.Redis
) -> None:
    with api(url) as store:
        store.get_or_create("c", "user", "agent")
        block = store.locked("c")
        memory = block.__enter__()
        memory.end_turn("Hello", "greet")
        held = client.exists(LOCK)

        store.close()

        released = not client.exists(LOCK)
        with pytest.raises(StoreClosedError):
            block.__exit__(None, None, None)
    with api(url) as store:
        stored = store.get("c")

    assert held
    assert released
    assert stored is not None
    assert stored.revision == 1


def test_a_lock_that_is_not_free_in_time_raises_with_the_conversation_and_the_time(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    store = open_store(lock_timeout=0.3)
    store.get_or_create("c", "user", "agent")
    client.set(LOCK, "somebody else", px=60_000)
    started = time.monotonic()

    with pytest.raises(LockTimeoutError, match=r"'c'.*0\.3 s"):
        store.end_turn("c", "Hello", "greet")

    assert 0.3 <= time.monotonic() - started < 0.6
    assert client.get(LOCK) == "somebody else"


def test_the_store_works_again_after_a_lock_was_not_free(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    store = open_store(lock_timeout=0.2)
    store.get_or_create("c", "user", "agent")
    client.set(LOCK, "somebody else", px=60_000)
    with pytest.raises(LockTimeoutError):
        store.end_turn("c", "Hello", "greet")
    client.delete(LOCK)

    assert store.end_turn("c", "Hello", "greet").revision == 2


def test_deleting_waits_for_the_lock_and_takes_no_other(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    store = open_store(lock_timeout=0.2)
    store.get_or_create("c", "user", "agent")
    client.set(LOCK, "somebody else", px=60_000)

    with pytest.raises(LockTimeoutError):
        store.delete("c")

    assert client.get(LOCK) == "somebody else"
    assert store.get("c") is not None


def test_a_lock_that_was_taken_away_lets_no_write_through(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    store = open_store()
    store.get_or_create("c", "user", "agent")

    def lose_it() -> None:
        with store.locked("c") as memory:
            client.set(LOCK, "somebody else", px=60_000)
            memory.end_turn("Hello", "greet")

    with pytest.raises(LockLostError, match="'c'"):
        lose_it()

    assert client.get(LOCK) == "somebody else"
    assert store.get("c").revision == 1


def test_a_lock_whose_release_a_failover_lost_does_not_delay_its_own_process_longer(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    store = open_store(lock_timeout=0.5)
    store.get_or_create("c", "user", "agent")
    with store.locked("c"):
        token = client.get(LOCK)
    client.set(LOCK, token, px=60_000)  # type: ignore[arg-type]

    assert store.end_turn("c", "Hello", "greet").revision == 3


def test_a_lock_of_another_type_counts_as_taken(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    store = open_store(lock_timeout=0.2)
    store.get_or_create("c", "user", "agent")
    client.lpush(LOCK, "what is this?")

    with pytest.raises(LockTimeoutError):
        store.end_turn("c", "Hello", "greet")


def test_a_long_block_of_the_sync_api_keeps_its_lock_and_ends_its_thread(
    url: str, client: redis.Redis
) -> None:
    threads = threading.active_count()
    with open_sync(url, lock_timeout=0.3) as store:
        store.get_or_create("c", "user", "agent")

        with store.locked("c") as memory:
            token = client.get(LOCK)
            time.sleep(1)
            token_later = client.get(LOCK)
            memory.end_turn("Hello", "greet")

        assert threading.active_count() == threads
        assert token == token_later
        assert store.get("c").revision == 2


def test_the_end_of_a_lock_wakes_a_waiting_call_in_another_process(
    open_store: Callable[..., Any], client: redis.Redis, url: str
) -> None:
    store = open_store()
    store.get_or_create("c", "user", "agent")
    client.set(LOCK, "somebody else", px=60_000)
    freed = []

    def free() -> None:
        [entry] = eventually(lambda: client.lrange("wm_line:{c}", 0, -1))
        time.sleep(0.8)  # by now the waiting call asks again only every half second or more
        client.delete(LOCK)
        token, _, channel = entry.partition("@")
        client.publish(channel, token)
        freed.append(time.monotonic())

    helper = threading.Thread(target=free)
    helper.start()
    store.end_turn("c", "Hello", "greet")
    waited = time.monotonic()
    helper.join()

    assert waited - freed[0] < 0.15


def test_a_waiting_call_notices_a_lock_that_ended_without_a_message(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    store = open_store()
    store.get_or_create("c", "user", "agent")
    client.set(LOCK, "somebody else", px=60_000)
    threading.Timer(0.3, lambda: client.delete(LOCK)).start()
    started = time.monotonic()

    store.end_turn("c", "Hello", "greet")

    assert 0.25 < time.monotonic() - started < 1.4


def test_processes_lose_no_update_of_one_conversation_and_hand_over_fast(url: str) -> None:
    with ExitStack() as stack, open_sync(url) as store:
        store.get_or_create("c", "user", "agent")
        updaters = [
            stack.enter_context(process("update", url, "25", f"process {n}")) for n in range(4)
        ]
        assert [line_from(updater) for updater in updaters] == ["ready"] * 4
        for updater in updaters:
            tell(updater)
        spans = sorted(span for updater in updaters for span in json.loads(line_from(updater)))
        last = store.get("c").revision

    assert last == 101
    assert [revision for revision, *_ in spans] == list(range(1, last))
    hand_overs = [
        entered - left
        for (_, before, _, left), (_, after, entered, _) in pairwise(spans)
        if before != after
    ]
    assert min(hand_overs) > 0
    assert statistics.median(hand_overs) < 0.05  # with nothing else to do on the machine: 0.005


def wait_until_queued(client: redis.Redis, count: int) -> None:
    eventually(lambda: client.llen("wm_line:{c}") == count)


def test_stores_get_a_lock_in_the_order_of_their_calls(url: str, client: redis.Redis) -> None:
    with ExitStack() as stack:
        stores = [stack.enter_context(open_sync(url)) for _ in range(5)]
        stores[0].get_or_create("c", "user", "agent")
        order: list[int] = []

        def update(number: int) -> None:
            with stores[number].locked("c"):
                order.append(number)

        threads = [threading.Thread(target=update, args=(number,)) for number in range(1, 5)]
        with stores[0].locked("c"):
            for count, thread in enumerate(threads, start=1):
                thread.start()
                wait_until_queued(client, count)
        again = threading.Thread(target=update, args=(0,))  # the one that has just let go
        again.start()
        for thread in [*threads, again]:
            thread.join()

        assert order[:4] == [1, 2, 3, 4]


@pytest.mark.parametrize("waiters", [1, 3])
def test_threads_that_take_the_lock_again_at_once_keep_no_other_store_out(
    open_store: Callable[..., Any], url: str, waiters: int
) -> None:
    """Also where the greedy store's threads are many."""
    over = threading.Event()
    taken = [0]
    with open_sync(url) as greedy:
        greedy.get_or_create("c", "user", "agent")
        store = open_store(lock_timeout=5)
        store.get("c")

        def take() -> None:
            while not over.is_set():
                with greedy.locked("c"):
                    taken[0] += 1
                    time.sleep(0.002)

        threads = [threading.Thread(target=take) for _ in range(waiters)]
        for thread in threads:
            thread.start()
        between = []
        for _ in range(10):
            before = taken[0]
            store.end_turn("c", "Hello", "greet")
            between.append(taken[0] - before)
        over.set()
        for thread in threads:
            thread.join()

    # Two or three, and some more while the store subscribes or the machine is busy.
    assert statistics.median(between) <= 5


def test_a_process_that_takes_the_lock_again_at_once_keeps_no_other_out(
    open_store: Callable[..., Any], url: str
) -> None:
    store = open_store(lock_timeout=5)
    store.get_or_create("c", "user", "agent")
    with process("update", url, "2000", "greedy") as greedy:
        assert line_from(greedy) == "ready"
        tell(greedy)
        eventually(lambda: store.get("c").revision > 10)
        between = []
        for _ in range(10):
            before = store.get("c").revision
            between.append(store.end_turn("c", "Hello", "greet").revision - before)

    assert statistics.median(between) <= 6


def test_a_waiting_process_that_was_killed_holds_the_queue_up_no_longer(
    open_store: Callable[..., Any], url: str, client: redis.Redis
) -> None:
    store = open_store()
    store.get_or_create("c", "user", "agent")
    with store.locked("c"):
        with process("hold", url, "5") as waiting:
            wait_until_queued(client, 1)
            waiting.kill()
        started = time.monotonic()
    updated = store.end_turn("c", "Hello", "greet")

    assert updated.revision == 3
    assert time.monotonic() - started < 0.9


def test_a_waiting_process_that_was_stopped_holds_the_queue_up_for_a_moment_only(
    open_store: Callable[..., Any], url: str, client: redis.Redis
) -> None:
    """The server takes it for a listener."""
    store = open_store()
    store.get_or_create("c", "user", "agent")
    with ExitStack() as stack:
        with store.locked("c"):
            waiting = stack.enter_context(process("hold", url, "5"))
            wait_until_queued(client, 1)
            os.kill(waiting.pid, signal.SIGSTOP)
        started = time.monotonic()

        updated = store.end_turn("c", "Hello", "greet")

        assert updated.revision == 3
        assert time.monotonic() - started < 2


def test_a_call_that_gives_up_leaves_the_queue(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    store = open_store(lock_timeout=0.3)
    store.get_or_create("c", "user", "agent")
    client.set(LOCK, "somebody else", px=60_000)

    with pytest.raises(LockTimeoutError):
        store.end_turn("c", "Hello", "greet")

    assert client.lrange("wm_line:{c}", 0, -1) == []


def test_an_entry_of_the_former_version_in_the_queue_costs_a_moment(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    store = open_store()
    store.get_or_create("c", "user", "agent")
    client.rpush("wm_line:{c}", "wm_wake:0123456789abcdef01234567")
    started = time.monotonic()

    assert store.end_turn("c", "Hello", "greet").revision == 2
    assert time.monotonic() - started < 1.5


def test_threads_lose_no_update_of_one_conversation(url: str) -> None:
    with open_sync(url) as store:
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
