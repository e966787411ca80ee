"""A request that was given up, and that the network delivers later, changes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jazzmine._sync.working_memory.backend import Lock, Mark, Stored, Written
from jazzmine.deadline import Deadline
from jazzmine.errors import LockLostError, NotFoundError, StoreUnavailableError
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.backends.memory_tables import Locks, open_sync, opened_backend

Opened = tuple[WorkingMemoryStore, WorkingMemoryStore, Locks]


@pytest.fixture(params=["postgres", "redis"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Two stores on the same data, with the conversations "c" and "old", which expires."""
    with (
        opened_backend(request.param, tmp_path) as (config, locks),
        open_sync(config) as store,
        open_sync(config) as other,
    ):
        yield store, other, locks


class Network:
    """Holds what a store writes and locks, which the store gives up."""

    def __init__(self, store: WorkingMemoryStore) -> None:
        self._backend: Any = store.backend
        self._held: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def hold(self, call: Callable[[], object]) -> None:
        """Make a call, which fails."""
        for name in ("write", "lock"):
            setattr(self._backend, name, self._holding(getattr(self._backend, name)))
        with pytest.raises(StoreUnavailableError):
            call()
        for name in ("write", "lock"):
            delattr(self._backend, name)

    def _holding(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def hold(*request: Any) -> Any:
            self._held.append((send, (*request[:-1], Deadline(5))))
            raise StoreUnavailableError("it is held")

        return hold

    def deliver(self) -> list[Any]:
        """Have the server do what was held, and return its answers."""
        assert self._held
        return [send(*request) for send, request in self._held]


def in_a_block(store: WorkingMemoryStore, cid: str) -> None:
    with store.locked(cid) as memory:
        memory.end_turn("in a block", "later")


CALLS: dict[str, Callable[[WorkingMemoryStore, str], object]] = {
    "end_turn": lambda store, cid: store.end_turn(cid, "an update", "greet"),
    "get_or_create": lambda store, cid: store.get_or_create(cid, "ann", "agent"),
    "delete": lambda store, cid: store.delete(cid),
    "locked": in_a_block,
    "get": lambda store, cid: store.get(cid),
    "erase_user": lambda store, cid: store.erase_user("ann"),
}


@pytest.mark.every_combination
@pytest.mark.parametrize("following", CALLS)
@pytest.mark.parametrize(
    ("given_up", "cid"),
    [("end_turn", "c"), ("delete", "c"), ("locked", "c"), ("get_or_create", "new")],
)
def test_what_was_given_up_changes_nothing_after_a_later_call(
    stores: Opened, given_up: str, cid: str, following: str
) -> None:
    store, other, locks = stores
    network = Network(store)
    store.get_or_create("c", "ann", "agent")
    network.hold(lambda: CALLS[given_up](store, cid))
    with suppress(NotFoundError):
        CALLS[following](store, cid)
    before = other.get(cid)

    network.deliver()

    assert other.get(cid) == before
    assert locks.holder() is None
    assert before is None or following != "erase_user"


def test_a_creation_that_was_given_up_is_not_made_after_an_erasure_of_what_expired(
    stores: Opened,
) -> None:
    """The erasure, of another store, keeps what tells the late request from a new one."""
    store, other, locks = stores
    network = Network(store)
    store.get_or_create("c", "ann", "agent")
    locks.expire()
    network.hold(lambda: store.get_or_create("c", "ann", "agent"))
    assert store.get("c") is None
    other.erase_user("ann")

    network.deliver()

    assert other.get("c") is None


def test_a_request_that_is_given_up_while_another_is_taken_back_stays_doubtful(
    stores: Opened,
) -> None:
    store, _, _ = stores
    store.get_or_create("c", "ann", "agent")
    updates, backend = store._updates, store.backend
    earlier, later = updates._next_mark(), updates._next_mark()
    updates._doubtful["c"] = earlier
    load = backend.load

    def load_slowly(*arguments: Any, **named: Any) -> Stored:
        stored = load(*arguments, **named)
        updates._doubtful["c"] = later  # as a call of another thread, which fails now
        return stored

    backend.load = load_slowly  # type: ignore[method-assign]
    store.get("c")

    assert updates._doubtful["c"] == later


def test_the_doubts_of_ten_thousand_conversations_are_kept(stores: Opened) -> None:
    store, _, _ = stores
    store.get_or_create("c0", "ann", "agent")
    updates = store._updates
    for number in range(1, 10_000):
        updates._doubtful[f"c{number}"] = Mark("another", number)
    network = Network(store)

    network.hold(lambda: store.end_turn("c0", "late", "greet"))
    store.end_turn("c0", "in time", "greet")

    assert network.deliver() == [Written()]
    assert len(updates._doubtful) == 9_999
    current = store.get("c0")
    assert current is not None
    assert current.last_agent_response == "in time"


@pytest.fixture(params=["postgres", "sqlite", "redis"])
def any_stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    with (
        opened_backend(request.param, tmp_path) as (config, locks),
        open_sync(config) as store,
        open_sync(config, lock_timeout=2) as other,
    ):
        yield store, other, locks


def test_a_renewal_that_is_late_takes_no_lock_after_its_block(any_stores: Opened) -> None:
    store, other, locks = any_stores
    store.get_or_create("c", "ann", "agent")
    backend: Any = store.backend
    requests: list[Lock] = []
    lock = backend.lock

    def note(request: Lock, deadline: Deadline) -> Any:
        requests.append(request)
        return lock(request, deadline)

    backend.lock = note
    for cid in ("saved", "not saved"):
        with suppress(ZeroDivisionError), store.locked("c"):
            1 // (cid == "saved")

    for request in requests:
        lock(request._replace(renews=True), Deadline(5))

    assert len(requests) == 2
    assert locks.holder() is None
    assert other.end_turn("c", "Hello", "greet").revision == 3


def test_an_earlier_request_that_is_taken_back_leaves_the_lock_of_a_later_block(
    any_stores: Opened,
) -> None:
    store, _, locks = any_stores
    store.get_or_create("c", "ann", "agent")
    earlier = store._updates._next_mark()

    with store.locked("c"):
        held = locks.holder()
        store.backend.load("c", Deadline(5), taken_back=earlier)

        assert locks.holder() == held


def test_a_block_whose_store_is_closed_during_its_save_tells_what_became_of_it(
    any_stores: Opened,
) -> None:
    store, other, _ = any_stores
    store.get_or_create("c", "ann", "agent")
    backend: Any = store.backend
    write = backend.write

    def close_and_write(*request: Any) -> Any:
        store._updates.close()  # which releases the locks of blocks
        return write(*request)

    backend.write = close_and_write
    with store.locked("c") as memory:
        memory.end_turn("kept", "greet")

    current = other.get("c")
    assert current is not None
    assert current.last_agent_response == "kept"


def test_an_erasure_beside_writers_ends_with_nothing(any_stores: Opened) -> None:
    store, other, _ = any_stores
    over, errors = threading.Event(), list[BaseException]()

    def write(writer: WorkingMemoryStore, number: int) -> None:
        while not over.is_set():
            try:
                writer.get_or_create(f"c{number}", "ann", "agent")
                writer.end_turn(f"c{number}", "Hello", "greet")
                in_a_block(writer, f"c{number}")
            except (NotFoundError, LockLostError):
                pass
            except Exception as error:
                errors.append(error)
                return

    writers = [
        threading.Thread(target=write, args=(writer, number))
        for writer in (store, other)
        for number in range(2)
    ]
    for each in writers:
        each.start()
    end = time.monotonic() + 1
    while time.monotonic() < end:
        store.erase_user("ann")
    over.set()
    for each in writers:
        each.join()
    store.erase_user("ann")

    assert errors == []
    assert other.active_count() == 0
    assert [other.get(f"c{number}") for number in range(2)] == [None, None]
