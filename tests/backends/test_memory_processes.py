"""Updates and blocks of several processes that stop, die, fork or never pause."""

from __future__ import annotations

import json
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from jazzmine.errors import LockLostError, LockTimeoutError
from tests.backends.memory_holder import line_from, process, send_line
from tests.backends.memory_tables import TOKEN, Config, Locks, open_sync
from tests.faults.sizes import TOLERANCE, size


def test_a_stopped_holder_cannot_write_over_what_came_after_it(
    open_memory: Callable[..., Any], memory_config: Config
) -> None:
    store = open_memory(lock_timeout=5)
    store.get_or_create("c", "user", "agent")
    with process("hold", {**memory_config, "lease_seconds": 0.4}) as holder:
        assert line_from(holder) == "held"
        holder.send_signal(signal.SIGSTOP)

        newer = store.end_turn("c", "the newer one", "newer")
        os.kill(holder.pid, signal.SIGCONT)
        send_line(holder)
        said = line_from(holder)

    assert said == "LockLostError"
    assert store.get("c") == newer


def test_a_lock_that_is_not_free_in_time_raises_and_says_who_holds_it(
    open_memory: Callable[..., Any], locks: Locks
) -> None:
    open_memory().get_or_create("c", "user", "agent")
    store = open_memory(lock_timeout=0.3)
    locks.take_lock("another")
    started = time.monotonic()

    with pytest.raises(
        LockTimeoutError, match=r"'c'.*0\.3 s: the store 'another' has held"
    ) as said:
        store.end_turn("c", "Hello", "greet")

    assert time.monotonic() - started >= 0.3
    # Only the block of this process can be the caller's own.
    assert "in a locked() block" not in str(said.value)
    assert locks.holder() == TOKEN


def test_a_lock_that_was_taken_away_lets_no_write_through(
    open_memory: Callable[..., Any], locks: Locks
) -> None:
    store = open_memory()
    store.get_or_create("c", "user", "agent")

    def lose_it() -> None:
        with store.locked("c") as memory:
            locks.take_lock("another")
            memory.end_turn("Hello", "greet")

    with pytest.raises(LockLostError, match="'c'"):
        lose_it()

    assert locks.holder() == TOKEN
    assert store.get("c").revision == 1


def test_a_block_whose_lock_has_expired_saves_unless_another_store_has_saved(
    open_memory: Callable[..., Any], locks: Locks
) -> None:
    store, other = open_memory(), open_memory()
    store.get_or_create("c", "user", "agent")

    def change(*, meanwhile: Callable[[], object]) -> None:
        with store.locked("c") as memory:
            locks.end_lock()
            meanwhile()
            memory.end_turn("Hello", "greet")

    change(meanwhile=lambda: None)
    with pytest.raises(LockLostError, match="expired"):
        change(meanwhile=lambda: other.end_turn("c", "meanwhile", "greet"))

    assert store.get("c").last_agent_response == "meanwhile"
    assert store.end_turn("c", "Hello", "greet").revision == 4


def test_a_block_that_was_interrupted_has_released_its_lock(
    open_memory: Callable[..., Any], locks: Locks
) -> None:
    """The program ends next, and with it its threads."""
    store = open_memory()
    store.get_or_create("c", "user", "agent")

    with pytest.raises(KeyboardInterrupt), store.locked("c"):
        raise KeyboardInterrupt

    assert locks.holder() is None


def test_a_block_whose_state_has_expired_saves_nothing(
    open_memory: Callable[..., Any], locks: Locks
) -> None:
    store = open_memory()
    store.get_or_create("c", "user", "agent")

    def end_late() -> None:
        with store.locked("c") as memory:
            locks.expire()
            memory.end_turn("Hello", "greet")

    with pytest.raises(LockLostError, match="deleted meanwhile, or has expired"):
        end_late()
    assert store.get("c") is None
    assert store.get_or_create("c", "another", "agent").user_id == "another"


def test_a_long_block_keeps_its_lock_and_ends_its_thread(
    memory_config: Config, locks: Locks
) -> None:
    with open_sync(memory_config, lease_seconds=0.3) as store:
        store.get_or_create("c", "user", "agent")
        threads = threading.active_count()

        with store.locked("c") as memory:
            token = locks.holder()
            time.sleep(0.7)
            token_later = locks.holder()
            memory.end_turn("Hello", "greet")

        deadline = time.monotonic() + 60
        while threading.active_count() > threads and time.monotonic() < deadline:
            time.sleep(0.01)
        assert threading.active_count() == threads
        assert token == token_later
        assert store.get("c").revision == 2


def test_an_update_waits_for_a_block_in_another_process_that_is_longer_than_its_lease(
    open_memory: Callable[..., Any], memory_config: Config
) -> None:
    store = open_memory()
    store.get_or_create("c", "user", "agent")
    with process("hold", {**memory_config, "lease_seconds": 0.5}) as holder:
        assert line_from(holder) == "held"
        threading.Timer(1, send_line, [holder]).start()
        started = time.monotonic()

        updated = store.end_turn("c", "Hello", "greet")

        waited = time.monotonic() - started
        assert line_from(holder) == "saved"

    assert waited > 0.9
    assert updated.revision == 3


def test_processes_without_a_pause_lose_no_update_and_starve_nobody(memory_config: Config) -> None:
    processes, count = 8, size(25, 200)
    with ExitStack() as stack, open_sync(memory_config) as store:
        store.get_or_create("c", "user", "agent")
        updaters = [
            stack.enter_context(process("update", memory_config, str(count)))
            for _ in range(processes)
        ]
        assert [line_from(updater) for updater in updaters] == ["ready"] * processes
        for updater in updaters:
            send_line(updater)
        times = [took for updater in updaters for took in json.loads(line_from(updater))]
        last = store.get("c").revision

    assert last == processes * count + 1
    print(f"slowest {max(times):.3f} s, {max(times) / statistics.median(times):.0f} x the median")
    assert max(times) <= 50 * statistics.median(times) + TOLERANCE
