"""The suite of random schedules detects stores with deliberate defects."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jazzmine import ConflictError, StoreUnavailableError
from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import InMemoryWorkingMemoryStore
from tests.behaviour.apis import SYNC
from tests.behaviour.samples import conversation
from tests.faults.linearizability import Operation
from tests.faults.schedules import Fault
from tests.faults.workload import Run, call_at_once, read_all, recorders

SECONDS = 1.0
EVERY = 10  # one of these calls is broken
LATER = 0.2


class Broken(ABC):
    """Delegates to a store, and breaks some of its calls."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._calls = 0
        self._timers: list[threading.Timer] = []

    def happen_later(self, call: Callable[[], Any]) -> None:
        timer = threading.Timer(LATER, _ignoring_conflicts, [call])
        self._timers.append(timer)
        timer.start()

    def settle(self) -> None:
        for timer in self._timers:
            timer.join()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._call, name, getattr(self._store, name))

    def _call(self, name: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self._calls += 1
        if self._calls % EVERY:
            return call(*arguments, **named)
        return self.break_call(name, partial(call, *arguments, **named))

    @abstractmethod
    def break_call(self, name: str, call: Callable[[], Any]) -> Any:
        """Make a call with the defect of the mutant."""


def _ignoring_conflicts(call: Callable[[], Any]) -> None:
    with suppress(ConflictError):
        call()


class HappensAfterItWasGivenUp(Broken):
    def break_call(self, name: str, call: Callable[[], Any]) -> Any:
        self.happen_later(call)
        raise StoreUnavailableError("abandoned")


class HappensAgainAfterItReturned(Broken):
    def break_call(self, name: str, call: Callable[[], Any]) -> Any:
        result = call()
        self.happen_later(call)
        return result


class IsAcknowledgedBeforeItHappens(Broken):
    def break_call(self, name: str, call: Callable[[], Any]) -> Any:
        if name.startswith(("get", "end_turn")):
            return call()
        self.happen_later(call)
        return name == "delete_message" or None


class DoesNotHappen(Broken):
    def break_call(self, name: str, call: Callable[[], Any]) -> Any:
        return None if name.startswith("store") else call()


class HappensTwice(Broken):
    def break_call(self, name: str, call: Callable[[], Any]) -> Any:
        if name == "end_turn":
            call()
        return call()


def run_messages(store: Any) -> Run:
    workers = recorders("json", 1)
    store.store_conversation(conversation())
    asyncio.run(call_at_once(SYNC, workers, store, SECONDS))
    settle(store)
    asyncio.run(read_all(workers[0], store))
    settle(store)
    return Run("json", workers)


def settle(store: Any) -> None:
    """Wait for the scheduled functions."""
    if isinstance(store, Broken):
        store.settle()


@pytest.fixture
def messages(tmp_path: Path) -> Iterator[MessageStore]:
    config = {"path": str(tmp_path / "messages.json"), "fsync": False}
    with MessageStore.initialize(config) as store:
        yield store


def test_a_sound_message_store_is_not_blamed(messages: MessageStore) -> None:
    run_messages(messages).check()


@pytest.mark.parametrize(
    "mutant",
    [
        HappensAfterItWasGivenUp,
        HappensAgainAfterItReturned,
        IsAcknowledgedBeforeItHappens,
        DoesNotHappen,
    ],
)
def test_a_broken_message_store_is_caught(mutant: type[Broken], messages: MessageStore) -> None:
    with pytest.raises(AssertionError, match="no order explains"):
        run_messages(mutant(messages)).check()


def run_memories(store: Any, seed: int = 1) -> Run:
    workers = recorders("redis", seed)
    asyncio.run(call_at_once(SYNC, workers, store, SECONDS))
    asyncio.run(read_all(workers[0], store))
    return Run("redis", workers)


def test_a_sound_working_memory_is_not_blamed() -> None:
    with InMemoryWorkingMemoryStore() as store:
        run_memories(store).check()


def test_a_broken_working_memory_is_caught() -> None:
    # A busy machine may make too few calls in one run.
    assert any(twice_is_caught(seed) for seed in range(10))


def twice_is_caught(seed: int) -> bool:
    with InMemoryWorkingMemoryStore() as store:
        try:
            run_memories(HappensTwice(store), seed).check()
        except AssertionError as error:
            return "no order" in str(error)
    return False


CREATED, DELETED = ("create", (1, None)), ("delete", True)


def history(*calls: tuple[str, Any]) -> Any:
    """Return a worker that has made calls of one record, one each second."""
    made = [
        Operation(name, 0, float(second), second + 0.5, result)
        for second, (name, result) in enumerate(calls)
    ]
    return SimpleNamespace(history=made)


@pytest.mark.parametrize(
    ("calls", "faults", "is_possible"),
    [
        ([CREATED, DELETED, ("read", (1, None))], [0.2], True),
        ([CREATED, DELETED, ("read", (1, None))], [], False),
        ([CREATED, DELETED, ("read", (1, None))], [1.2], False),
        ([CREATED, ("write", (2, "0")), DELETED, ("read", (2, "0"))], [1.2], False),
    ],
)
@pytest.mark.parametrize("name", ["redis", "postgres_memory"])
def test_only_a_creation_that_met_a_fault_may_happen_after_a_deletion(
    name: str, calls: list[tuple[str, Any]], faults: list[float], is_possible: bool
) -> None:
    run = Run(name, [history(*calls)], [Fault(moment, "held") for moment in faults])

    with nullcontext() if is_possible else pytest.raises(AssertionError, match="no order"):
        run.check()
