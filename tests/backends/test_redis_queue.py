"""Calls that wait for a lock in Redis: their order, how they are woken, and those that stop."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis

from jazzmine.errors import LockTimeoutError
from tests.backends.memory_processes import line_from, process, send_line
from tests.backends.redis_apis import APIS, open_sync
from tests.backends.without_polling import never_poll
from tests.faults.sizes import LENIENCE
from tests.servers.redis import eventually

LOCK, MEMORY = "wm_lock:{c}", "wm:{c}"


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def open_store(api: Any, url: str) -> Iterator[Callable[..., Any]]:
    """Opens stores of an API on the same database."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(api(url, **options))


def test_the_end_of_a_lock_wakes_a_waiting_call_in_another_process(
    open_store: Callable[..., Any], client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_poll(monkeypatch)
    store = open_store()
    store.get_or_create("c", "user", "agent")
    client.set(LOCK, "somebody else", px=60_000)
    freed = []

    def free() -> None:
        [entry] = eventually(lambda: client.lrange("wm_line:{c}", 0, -1))
        client.delete(LOCK)
        token, _, channel = entry.partition("@")
        client.publish(channel, token)
        freed.append(time.monotonic())

    helper = threading.Thread(target=free)
    helper.start()
    store.end_turn("c", "Hello", "greet")
    waited = time.monotonic()
    helper.join()

    assert waited - freed[0] < 0.15 + LENIENCE


def test_a_waiting_call_notices_a_lock_that_ended_without_a_message(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    store = open_store()
    store.get_or_create("c", "user", "agent")
    client.set(LOCK, "somebody else", px=60_000)
    threading.Timer(0.3, lambda: client.delete(LOCK)).start()
    started = time.monotonic()

    store.end_turn("c", "Hello", "greet")

    assert 0.25 < time.monotonic() - started < 1.4 + LENIENCE


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
        again = threading.Thread(
            target=update, args=(0,)
        )  # the store that has just released the lock
        again.start()
        for thread in [*threads, again]:
            thread.join()

        assert order[:4] == [1, 2, 3, 4]


@pytest.mark.parametrize("waiters", [1, 3])
def test_threads_that_take_the_lock_again_at_once_do_not_exclude_another_store(
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


def test_a_process_that_takes_the_lock_again_at_once_does_not_exclude_another(
    open_store: Callable[..., Any], url: str
) -> None:
    store = open_store(lock_timeout=5)
    store.get_or_create("c", "user", "agent")
    with process("update", {"storage": "redis", "url": url}, "2000", "greedy") as greedy:
        assert line_from(greedy) == "ready"
        send_line(greedy)
        eventually(lambda: store.get("c").revision > 10)
        between = []
        for _ in range(10):
            before = store.get("c").revision
            between.append(store.end_turn("c", "Hello", "greet").revision - before)

    assert statistics.median(between) <= 6


def test_a_waiting_process_that_was_killed_does_not_delay_the_queue(
    open_store: Callable[..., Any], url: str, client: redis.Redis
) -> None:
    store = open_store()
    store.get_or_create("c", "user", "agent")
    with store.locked("c"):
        with process("hold", {"storage": "redis", "url": url, "lock_timeout": 5}) as waiting:
            [entry] = eventually(lambda: client.lrange("wm_line:{c}", 0, -1))
            waiting.kill()
        channel = entry.partition("@")[2]
        eventually(lambda: client.pubsub_numsub(channel) == [(channel, 0)])

    assert not client.exists(LOCK)  # it was handed over to no one
    assert store.end_turn("c", "Hello", "greet").revision == 3


def test_a_waiting_process_that_was_stopped_delays_the_queue_only_for_a_moment(
    open_store: Callable[..., Any], url: str, client: redis.Redis
) -> None:
    """The server takes it for a listener."""
    store = open_store()
    store.get_or_create("c", "user", "agent")
    with ExitStack() as stack:
        with store.locked("c"):
            config = {"storage": "redis", "url": url, "lock_timeout": 5}
            waiting = stack.enter_context(process("wait", config))
            os.waitpid(waiting.pid, os.WUNTRACED)  # until it is suspended
            assert client.llen("wm_line:{c}") == 1
        started = time.monotonic()

        updated = store.end_turn("c", "Hello", "greet")

        assert updated.revision == 3
        assert time.monotonic() - started < 2 + LENIENCE


def test_a_call_that_ends_at_its_deadline_leaves_the_queue(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    open_store().get_or_create("c", "user", "agent")
    client.set(LOCK, "somebody else", px=60_000)

    with pytest.raises(LockTimeoutError):
        open_store(lock_timeout=0.3).end_turn("c", "Hello", "greet")

    assert client.lrange("wm_line:{c}", 0, -1) == []


def test_an_entry_of_the_former_version_in_the_queue_costs_a_moment(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    store = open_store()
    store.get_or_create("c", "user", "agent")
    client.rpush("wm_line:{c}", "wm_wake:0123456789abcdef01234567")
    started = time.monotonic()

    assert store.end_turn("c", "Hello", "greet").revision == 2
    assert time.monotonic() - started < 1.5 + LENIENCE
