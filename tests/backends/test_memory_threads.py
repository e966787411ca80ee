"""The locks of a working memory in one process: threads, signals and forks."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from jazzmine._compat.concurrency import SyncAffinity as Affinity
from jazzmine.errors import (
    LockLostError,
)
from jazzmine.sync.working_memory import (
    InMemoryWorkingMemoryStore,
    WorkingMemory,
    WorkingMemoryStore,
)


class InterruptError(BaseException):
    """Raised by a signal handler in the main thread."""


def working_memory(cid: str = "c") -> WorkingMemory:
    return WorkingMemory(cid, "user", "agent")


def locks_in_use(store: InMemoryWorkingMemoryStore) -> int:
    return len(store._updates._calls)


@contextmanager
def held_elsewhere(store: InMemoryWorkingMemoryStore, cid: str) -> Iterator[None]:
    """Hold the conversation's lock in another thread."""
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with store.locked(cid):
            entered.set()
            leave.wait(10)

    with ThreadPoolExecutor(1) as thread:
        holding = thread.submit(hold)
        entered.wait(10)
        try:
            yield
        finally:
            leave.set()
        holding.result()


@contextmanager
def interrupted_in(seconds: float) -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise InterruptError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def in_a_child(check: Callable[[], bool]) -> bool:
    """Return the result of a condition in a forked process, which is killed after 10 s."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        try:
            os._exit(0 if check() else 1)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


forks = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def test_the_table_of_locks_does_not_grow_with_the_conversations_ever_seen() -> None:
    store = InMemoryWorkingMemoryStore()

    def use(number: int) -> None:
        store.get_or_create(f"{number % 100}", "user", "agent")
        store.end_turn(f"{number % 100}", "Hello", "greet")
        with store.locked(f"{number % 100}") as memory:
            memory.end_turn("Bye", "part")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(use, range(400)))

    assert store.active_count() == 100
    assert locks_in_use(store) == 0


def test_an_interrupt_while_waiting_for_a_lock_leaves_the_store_usable() -> None:
    store = InMemoryWorkingMemoryStore(lock_timeout=5)
    saved = store.save(working_memory())

    with held_elsewhere(store, "c"), pytest.raises(InterruptError), interrupted_in(0.05):
        store.end_turn("c", "interrupted", "greet")

    assert locks_in_use(store) == 0
    updated = store.end_turn("c", "usable", "greet")
    assert updated.revision == saved.revision + 2


def test_an_interrupt_in_a_block_saves_nothing_and_releases_the_lock() -> None:
    store = InMemoryWorkingMemoryStore(lock_timeout=5)
    saved = store.save(working_memory())

    def change() -> None:
        with store.locked("c") as memory:
            memory.end_turn("half done", "greet")
            threading.Event().wait(5)

    with pytest.raises(InterruptError), interrupted_in(0.05):
        change()

    assert store.get("c") == saved
    assert locks_in_use(store) == 0


@forks
def test_a_forked_child_works_at_once_though_a_thread_of_its_parent_holds_the_lock() -> None:
    store = InMemoryWorkingMemoryStore(lock_timeout=2)
    store.save(working_memory())

    def works() -> bool:
        return store.end_turn("c", "from the child", "greet").revision == 2

    with held_elsewhere(store, "c"):
        assert in_a_child(works)

    assert locks_in_use(store) == 0


@forks
def test_a_forked_child_saves_its_own_working_memory() -> None:
    store = InMemoryWorkingMemoryStore()
    saved = store.save(working_memory())

    def saves_and_deletes() -> bool:
        store.save(working_memory("child's"))
        return store.delete("c") and store.active_count() == 1

    assert in_a_child(saves_and_deletes)
    assert store.get("c") == saved
    assert store.get("child's") is None


@forks
def test_a_child_forked_in_a_block_may_not_save_what_its_parent_holds() -> None:
    store = InMemoryWorkingMemoryStore(lock_timeout=2)
    store.save(working_memory())
    block = store.locked("c")
    memory = block.__enter__()

    def leaves() -> bool:
        store.save(working_memory("other"))
        memory.end_turn("from the child", "greet")
        with pytest.raises(LockLostError, match="forked"):
            block.__exit__(None, None, None)
        stored = store.end_turn("c", "again", "greet")
        return stored.revision == 2 and locks_in_use(store) == 0

    left = in_a_child(leaves)
    block.__exit__(None, None, None)

    assert left
    stored = store.get("c")
    assert stored is not None
    assert (stored.revision, stored.last_agent_response) == (2, None)


@forks
def test_a_grandchild_works_too() -> None:
    store = InMemoryWorkingMemoryStore(lock_timeout=2)
    store.save(working_memory())

    def child() -> bool:
        with held_elsewhere(store, "c"):
            return in_a_child(lambda: store.end_turn("c", "Hello", "greet").revision == 2)

    assert in_a_child(child)


@forks
def test_of_many_threads_in_a_child_one_resets_the_store_and_the_others_wait() -> None:
    resets: list[int] = []
    after_fork = threading.Event()

    def reset() -> None:
        resets.append(os.getpid())
        threading.Event().wait(0.05)
        after_fork.set()

    affinity = Affinity(reset)

    def was_reset_once() -> bool:
        def check(_: int) -> bool:
            affinity.ensure()
            return after_fork.is_set()

        with ThreadPoolExecutor(8) as threads:
            waited = list(threads.map(check, range(8)))
        return all(waited) and resets == [os.getpid()]

    affinity.ensure()

    assert in_a_child(was_reset_once)
    assert resets == []


@pytest.fixture(params=["memory", "sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[WorkingMemoryStore]]:
    """A store with the conversations "c" and "d", and one that was quicker to save the first."""
    config = {"storage": request.param, "timeout": 5}
    if request.param == "sqlite":
        config["path"] = str(tmp_path / "memory.db")
    with (
        WorkingMemoryStore.initialize(config) as store,
        WorkingMemoryStore.initialize(config) as other,
    ):
        for cid in ("c", "d"):
            store.save(working_memory(cid))
        if request.param == "sqlite":
            other.end_turn("c", "quicker", "greet")
        yield [store, store.scoped(user_id="user")]


@pytest.mark.parametrize("cid", ["c", "d"])
def test_a_function_of_update_that_calls_its_store_is_told_at_once(
    stores: list[WorkingMemoryStore], cid: str
) -> None:
    """On SQLite it runs in the thread that writes, which would wait for itself."""
    for store in stores:

        def nested(wm: WorkingMemory, store: WorkingMemoryStore = store) -> None:
            store.set_data(cid, cart=1)

        with pytest.raises(RuntimeError, match="the working memory that it is given"):
            store.update("c", nested)

        assert store.set_data(cid, cart=2).data == {"cart": 2}


def test_a_function_of_update_ends_no_other_thread(stores: list[WorkingMemoryStore]) -> None:
    caller = threading.get_ident()

    def end(wm: WorkingMemory) -> None:
        if threading.get_ident() != caller:
            raise SystemExit("it would end the calls that are written together with this one")
        wm.end_turn("Hello", "greet")

    assert stores[0].update("c", end).last_agent_response == "Hello"
