"""Random concurrent calls on one conversation or on a few records, and their valid results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from inspect import isawaitable
from typing import Any

from jazzmine import (
    LockLostError,
    LockTimeoutError,
    Message,
    NotFoundError,
    StaleWorkingMemoryError,
    StoreUnavailableError,
)
from jazzmine.core.working_memory import WorkingMemory
from tests.behaviour.samples import message
from tests.faults.linearizability import UNKNOWN, Operation, Outcome
from tests.faults.recorders import RandomCalls

IDS = ("m0", "m1", "m2")
KEY = "c1"
READS = ("get", "list")
RECORDS = ("r0", "r1", "r2", "r3")
MISSING = "missing"
"""The result of a call that raised NotFoundError."""

OUTCOME_UNKNOWN = (StoreUnavailableError,)
# The lock was not free or was lost, another call was quicker, or the disk failed.
NOTHING_WRITTEN = (LockTimeoutError, LockLostError, StaleWorkingMemoryError, OSError)


class Recorder(RandomCalls[int]):
    """Makes the random calls of one client, each with a number that is unique.

    Args:
        calls: a function for each name, which calls a store with a number.
        seed: the seed of the client's random choices, and part of its numbers.
        weights: the relative frequency of each call.
    """

    def __init__(
        self,
        calls: dict[str, Callable[[Any, int], Any]],
        seed: int,
        weights: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(seed)
        self._calls = calls
        self._names = [name for name in calls for _ in range((weights or {}).get(name, 1))]
        self._next = seed * 1_000_000

    def choose(self) -> tuple[str, int]:
        """Return the name and the number of the next call."""
        self._next += self._random.randrange(1, 4)
        return self._random.choice(self._names), self._next

    def _start(self, store: Any, name: str, given: int) -> Any:
        return self._calls[name](store, given)

    def _remember(self, name: str, given: int, began: float, result: Any) -> Any:
        if isinstance(result, (*OUTCOME_UNKNOWN, asyncio.CancelledError)):
            result = UNKNOWN
        elif isinstance(result, NotFoundError):
            result = MISSING
        elif isinstance(result, NOTHING_WRITTEN):
            return None
        elif isinstance(result, BaseException):
            raise result
        elif isinstance(result, list):
            result = tuple((record.id, record.episode_id) for record in result)
        elif hasattr(result, "revision"):
            result = (result.revision, result.last_agent_response)
        elif hasattr(result, "episode_id"):
            result = result.episode_id
        self.history.append(Operation(name, given, began, time.monotonic(), result))
        return result


def _chosen(number: int) -> str:
    return IDS[number % len(IDS)]


MESSAGE_CALLS: dict[str, Callable[[Any, int], Any]] = {
    "store": lambda store, n: store.store_message(message(_chosen(n), episode_id=n)),
    "store two": lambda store, n: store.store_messages(
        [message("m0", episode_id=n), message("m2", episode_id=n)]
    ),
    "delete": lambda store, n: store.delete_message(_chosen(n)),
    "get": lambda store, n: store.get_message_by_id(_chosen(n)),
    "list": lambda store, n: store.get_messages_by_conversation_id(KEY),
}


def message_model(state: Any, operation: Operation) -> Outcome:
    """Apply a call to the messages of a conversation: pairs of id and number, in order."""
    stored, number = dict(state), operation.argument
    chosen = _chosen(number)
    result: Any = None
    if operation.name == "store":
        stored[chosen] = number
    elif operation.name == "store two":
        stored["m0"] = stored["m2"] = number
    elif operation.name == "delete":
        result = stored.pop(chosen, None) is not None
    elif operation.name == "get":
        result = stored.get(chosen)
    else:
        result = state
    return Outcome(result, tuple(stored.items()))


def is_related(one: Operation, other: Operation) -> bool:
    """Return whether two calls read or write the same message."""
    return not _ids(one).isdisjoint(_ids(other))


def _ids(operation: Operation) -> set[str]:
    if operation.name == "list":
        return set(IDS)
    if operation.name == "store two":
        return {"m0", "m2"}
    return {_chosen(operation.argument)}


def message_set_model(state: Any, operation: Operation) -> Outcome:
    """Apply a call to the messages of a conversation, without their order."""
    result, stored = message_model(state, operation)
    pairs: Any = stored
    if operation.name == "list":
        result = tuple(sorted(result))
    return Outcome(result, tuple(sorted(pairs)))


MEMORY_CALLS: dict[str, Callable[[Any, int], Any]] = {
    "note": lambda store, n: store.set_data(KEY, noted=n),
    "end": lambda store, n: store.end_turn(KEY, str(n), "intent"),
    "get": lambda store, n: store.get(KEY),
}


def memory_model(state: Any, operation: Operation) -> Outcome:
    """Apply a call to a working memory: its revision and its last response."""
    revision, response = state
    if operation.name == "note":
        state = (revision + 1, response)
    elif operation.name == "end":
        state = (revision + 1, str(operation.argument))
    return Outcome(state, state)


def _record(number: int) -> str:
    return RECORDS[number % len(RECORDS)]


def record_of(operation: Operation) -> str:
    """Return the id of the only record that a call reads or writes."""
    return _record(operation.argument)


def _numbered(number: int) -> Message:
    return message(_record(number), episode_id=number)


MESSAGE_RECORD_CALLS: dict[str, Callable[[Any, int], Any]] = {
    "read": lambda store, n: store.get_message_by_id(_record(n)),
    "write": lambda store, n: store.store_message(_numbered(n)),
    "write in a list": lambda store, n: store.store_messages([_numbered(n)]),
    "write in a turn": lambda store, n: store.store_turn(messages=[_numbered(n)]),
    "delete": lambda store, n: store.delete_message(_record(n)),
}


def message_record_model(state: Any, operation: Operation) -> Outcome:
    """Apply a call to one message; the state is its number, or None."""
    if operation.name == "read":
        return Outcome(state, state)
    if operation.name == "delete":
        return Outcome(state is not None, None)
    return Outcome(None, operation.argument)


def _change_in_block(store: Any, number: int) -> Any:
    block = store.locked(_record(number))
    if hasattr(block, "__aenter__"):
        return _change_in_block_async(block, number)
    with block as memory:
        memory.end_turn(str(number), "intent")
    return memory


async def _change_in_block_async(block: Any, number: int) -> Any:
    async with block as memory:
        memory.end_turn(str(number), "intent")
    return memory


def _read_and_save(store: Any, number: int) -> Any:
    read = store.get(_record(number))
    if isawaitable(read):
        return _read_and_save_async(store, read, number)
    return store.save(_changed(read, number))


async def _read_and_save_async(store: Any, read: Any, number: int) -> Any:
    return await store.save(_changed(await read, number))


def _changed(memory: WorkingMemory | None, number: int) -> WorkingMemory:
    if memory is None:
        raise NotFoundError
    memory.end_turn(str(number), "intent")
    return memory


def _user(number: int) -> str:
    return f"the user of {_record(number)}"


MEMORY_RECORD_CALLS: dict[str, Callable[[Any, int], Any]] = {
    "read": lambda store, n: store.get(_record(n)),
    "create": lambda store, n: store.get_or_create(_record(n), _user(n), "a1"),
    "write": lambda store, n: store.end_turn(_record(n), str(n), "intent"),
    "write by a function": lambda store, n: store.update(
        _record(n), lambda memory: memory.end_turn(str(n), "intent")
    ),
    "write in a block": _change_in_block,
    "write what was read": _read_and_save,
    "delete": lambda store, n: store.delete(_record(n)),
    "erase": lambda store, n: store.erase_user(_user(n)),
}
SEVERAL_STEPS = ("write in a block", "write what was read", "erase")
"""Calls that have a deadline for each of several steps."""


def memory_record_model(state: Any, operation: Operation) -> Outcome:
    """Apply a call to one working memory: its revision and last response, or None."""
    if operation.name in ("delete", "erase"):
        return Outcome(state is not None, None)
    if operation.name == "create":
        state = state or (1, None)
    elif operation.name.startswith("write") and state is None:
        return Outcome(MISSING, None)
    elif operation.name.startswith("write"):
        state = (state[0] + 1, str(operation.argument))
    return Outcome(state, state)
