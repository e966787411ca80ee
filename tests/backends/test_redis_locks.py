"""One writer at a time: tasks, threads and processes, also after a holder was suspended."""

from __future__ import annotations

import json
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import pytest
import redis

from jazzmine.errors import LockLostError, LockTimeoutError, StoreClosedError
from tests.backends.memory_processes import line_from, process, send_line
from tests.backends.redis_apis import APIS, open_sync
from tests.faults.sizes import LENIENCE

LOCK, MEMORY = "wm_lock:{c}", "wm:{c}"


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def open_store(api: Any, url: str) -> Iterator[Callable[..., Any]]:
    """Opens stores of an API on the same database."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(api(url, **options))


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


def test_a_stopped_holder_cannot_overwrite_a_later_update(
    open_store: Callable[..., Any], url: str
) -> None:
    store = open_store(lock_timeout=5)
    store.get_or_create("c", "user", "agent")
    with process("hold", {"storage": "redis", "url": url, "lock_timeout": 0.4}) as holder:
        assert line_from(holder) == "held"
        os.kill(holder.pid, signal.SIGSTOP)

        newer = store.end_turn("c", "the newer one", "newer")
        os.kill(holder.pid, signal.SIGCONT)
        send_line(holder)
        said = line_from(holder)

    assert said == "LockLostError"
    assert store.get("c") == newer


def test_a_holder_that_was_killed_blocks_no_other_for_longer_than_its_lock_lasts(
    open_store: Callable[..., Any], url: str
) -> None:
    store = open_store(lock_timeout=5)
    store.get_or_create("c", "user", "agent")
    with process("hold", {"storage": "redis", "url": url, "lock_timeout": 0.5}) as holder:
        assert line_from(holder) == "held"
        holder.kill()
    started = time.monotonic()

    store.end_turn("c", "Hello", "greet")

    assert time.monotonic() - started < 0.8 + LENIENCE


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
    open_store().get_or_create("c", "user", "agent")
    store = open_store(lock_timeout=0.3)
    client.set(LOCK, "somebody else", px=60_000)
    started = time.monotonic()

    with pytest.raises(LockTimeoutError, match=r"'c'.*0\.3 s"):
        store.end_turn("c", "Hello", "greet")

    assert 0.3 <= time.monotonic() - started < 0.6 + LENIENCE
    assert client.get(LOCK) == "somebody else"


def test_the_store_works_again_after_a_lock_was_not_free(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    store = open_store(lock_timeout=1)
    store.get_or_create("c", "user", "agent")
    client.set(LOCK, "somebody else", px=60_000)
    with pytest.raises(LockTimeoutError):
        store.end_turn("c", "Hello", "greet")
    client.delete(LOCK)

    assert store.end_turn("c", "Hello", "greet").revision == 2


def test_deleting_waits_for_the_lock_and_takes_no_other(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    open_store().get_or_create("c", "user", "agent")
    store = open_store(lock_timeout=0.2)
    client.set(LOCK, "somebody else", px=60_000)

    with pytest.raises(LockTimeoutError):
        store.delete("c")

    assert client.get(LOCK) == "somebody else"
    assert store.get("c") is not None


def test_a_write_without_its_lock_is_refused(
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
    store = open_store(lock_timeout=2)
    store.get_or_create("c", "user", "agent")
    with store.locked("c"):
        token = client.get(LOCK)
    assert isinstance(token, str)
    client.set(LOCK, token, px=60_000)

    assert store.end_turn("c", "Hello", "greet").revision == 3


def test_a_lock_of_another_type_counts_as_taken(
    open_store: Callable[..., Any], client: redis.Redis
) -> None:
    open_store().get_or_create("c", "user", "agent")
    store = open_store(lock_timeout=0.2)
    client.lpush(LOCK, "what is this?")

    with pytest.raises(LockTimeoutError):
        store.end_turn("c", "Hello", "greet")


def test_no_two_blocks_of_stores_and_forked_processes_have_the_same_token(
    url: str, client: redis.Redis
) -> None:
    def note_tokens(store: Any) -> None:
        for _ in range(2):
            with store.locked("c"):
                client.rpush("tokens", str(client.get(LOCK)))

    with open_sync(url) as one, open_sync(url) as other:
        one.get_or_create("c", "user", "agent")
        note_tokens(one)
        note_tokens(other)
        child = os.fork()
        if child == 0:
            try:
                note_tokens(one)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        note_tokens(one)

    tokens = client.lrange("tokens", 0, -1)
    assert len(tokens) == len(set(tokens)) == 8


def test_a_long_block_of_the_sync_api_keeps_its_lock_and_ends_its_thread(
    url: str, client: redis.Redis
) -> None:
    threads = threading.active_count()
    with open_sync(url, lock_timeout=1) as store:
        store.get_or_create("c", "user", "agent")

        with store.locked("c") as memory:
            token = client.get(LOCK)
            time.sleep(1.5)
            token_later = client.get(LOCK)
            memory.end_turn("Hello", "greet")

        assert threading.active_count() == threads
        assert token == token_later
        assert store.get("c").revision == 2


def test_processes_lose_no_update_of_one_conversation_and_pass_the_lock_on_fast(url: str) -> None:
    with ExitStack() as stack, open_sync(url) as store:
        store.get_or_create("c", "user", "agent")
        updaters = [
            stack.enter_context(
                process("update", {"storage": "redis", "url": url}, "25", f"process {n}")
            )
            for n in range(4)
        ]
        assert [line_from(updater) for updater in updaters] == ["ready"] * 4
        for updater in updaters:
            send_line(updater)
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
