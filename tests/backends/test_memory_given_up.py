"""A request that was given up, and that the network delivers later, undoes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jazzmine.deadline import Deadline
from jazzmine.errors import LockLostError, NotFoundError, StoreUnavailableError
from jazzmine.records.stored_memory import Lock
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.backends.memory_tables import BACKENDS, Locks, open_sync, opened_backend

Opened = tuple[WorkingMemoryStore, WorkingMemoryStore, Locks]


@pytest.fixture(params=BACKENDS)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Two stores on the same data, with the conversation "c"."""
    with (
        opened_backend(request.param, tmp_path) as (config, locks),
        open_sync(config) as store,
        open_sync(config, lock_timeout=2) as other,
    ):
        store.get_or_create("c", "ann", "agent")
        yield store, other, locks


class Network:
    """Holds what a store writes, or asks for, which the store gives up."""

    def __init__(self, store: WorkingMemoryStore) -> None:
        self._backend: Any = store.backend
        self._held: list[Callable[[], object]] = []

    def hold(self, call: Callable[[], object], hook: str = "write") -> None:
        """Make a call, which fails in one hook of the back end."""
        setattr(self._backend, hook, partial(self._hold, getattr(self._backend, hook)))
        with pytest.raises(StoreUnavailableError):
            call()
        delattr(self._backend, hook)

    def _hold(self, hook: Callable[..., object], what: Any, *arguments: Any) -> Any:
        if isinstance(what, Lock) and not what.seconds:
            return hook(what, *arguments)  # it releases the lock
        again = [lambda stored: stored] * (len(arguments) - 1)
        self._held.append(partial(hook, what, *again, Deadline(5)))
        raise StoreUnavailableError("it is held")

    def deliver(self) -> None:
        """Have the server do what was held."""
        assert self._held
        for request in self._held:
            request()


def in_a_block(store: WorkingMemoryStore) -> None:
    with store.locked("c") as memory:
        memory.end_turn("in a block", "later")


CALLS: dict[str, Callable[[WorkingMemoryStore], object]] = {
    "end_turn": lambda store: store.end_turn("c", "an update", "greet"),
    "delete": lambda store: store.delete("c"),
    "locked": in_a_block,
    "made anew": lambda store: (store.delete("c"), store.get_or_create("c", "ann", "agent")),
}


@pytest.mark.every_combination
@pytest.mark.parametrize("following", ["end_turn", "locked", "made anew"])
@pytest.mark.parametrize("given_up", ["end_turn", "delete", "locked"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["the same store", "another store"])
def test_what_was_given_up_changes_nothing_after_a_later_save(
    stores: Opened, given_up: str, following: str, elsewhere: bool
) -> None:
    store, other, locks = stores
    network = Network(store)
    network.hold(lambda: CALLS[given_up](store))
    CALLS[following](other if elsewhere else store)
    before = other.get("c")
    assert before is not None

    network.deliver()

    assert other.get("c") == before
    assert locks.holder() is None


def test_a_lock_whose_request_was_given_up_is_not_held(stores: Opened) -> None:
    store, other, locks = stores
    network = Network(store)
    network.hold(lambda: in_a_block(store), "lock")

    network.deliver()

    assert locks.holder() is not None
    other.end_turn("c", "an update", "greet")  # it waits for at most 2 s, a lock lasts for 10
    assert locks.holder() is None


def test_an_erasure_beside_writers_ends_with_nothing(stores: Opened) -> None:
    store, other, _ = stores
    over, errors = threading.Event(), list[BaseException]()

    def write(writer: WorkingMemoryStore) -> None:
        while not over.is_set():
            try:
                writer.get_or_create("c", "ann", "agent")
                writer.end_turn("c", "Hello", "greet")
                in_a_block(writer)
            except (NotFoundError, LockLostError):
                pass
            except Exception as error:
                errors.append(error)
                return

    writers = [threading.Thread(target=write, args=(writer,)) for writer in (store, other)]
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
    assert other.get("c") is None
