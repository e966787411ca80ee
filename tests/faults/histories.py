"""Random calls on a few messages or working memories, each on one of them, and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import isawaitable
from typing import Any

from jazzmine import Message, NotFoundError
from jazzmine.core.working_memory import WorkingMemory
from tests.behaviour.samples import message
from tests.faults.linearizability import Operation, Outcome
from tests.faults.recorders import MISSING, RandomCalls

RECORDS = ("r0", "r1", "r2", "r3")


def _record(number: int) -> str:
    return RECORDS[number % len(RECORDS)]


class Recorder(RandomCalls[int]):
    """Makes the random calls of one client, each with a number that is unique.

    Args:
        seed: the seed of the client's random choices, and part of its numbers.
        calls: a function for each name, which calls a store with a number.
    """

    reads = ("read",)

    def __init__(self, seed: int, calls: Mapping[str, Callable[[Any, int], Any]]) -> None:
        super().__init__(seed)
        self._calls = calls
        self._names = [*calls, "read", "read", "delete"]
        self._next = seed * 1_000_000

    def choose(self) -> tuple[str, int]:
        """Return the name and the number of the next call."""
        self._next += self._random.randrange(1, 4)
        return self._random.choice(self._names), self._next

    def reads_of_all(self) -> list[tuple[str, int]]:
        """A read of each record."""
        return [("read", number) for number in range(len(RECORDS))]

    def record_of(self, operation: Operation) -> str:
        """The id of the only record that a call reads or writes."""
        return _record(operation.argument)

    def _start(self, store: Any, name: str, given: int) -> Any:
        return self._calls[name](store, given)


class MessageRecorder(Recorder):
    """The state is the number in a message, or None."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, MESSAGE_CALLS)

    def _found(self, name: str, given: int, result: Any) -> Any:
        return getattr(result, "episode_id", result)

    def model(self, state: Any, operation: Operation) -> Outcome:
        """Apply a call to one message."""
        if operation.name == "read":
            return Outcome(state, state)
        if operation.name == "delete":
            return Outcome(state is not None, None)
        return Outcome(None, operation.argument)


def _numbered(number: int) -> Message:
    return message(_record(number), episode_id=number)


MESSAGE_CALLS: dict[str, Callable[[Any, int], Any]] = {
    "read": lambda store, n: store.get_message_by_id(_record(n)),
    "write": lambda store, n: store.store_message(_numbered(n)),
    "write in a list": lambda store, n: store.store_messages([_numbered(n)]),
    "write in a turn": lambda store, n: store.store_turn(messages=[_numbered(n)]),
    "delete": lambda store, n: store.delete_message(_record(n)),
}


class MemoryRecorder(Recorder):
    """The state is the revision and the last response of a working memory, or None."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, MEMORY_CALLS)

    def _found(self, name: str, given: int, result: Any) -> Any:
        if isinstance(result, WorkingMemory):
            return result.revision, result.last_agent_response
        return result

    def model(self, state: Any, operation: Operation) -> Outcome:
        """Apply a call to one working memory."""
        if operation.name in ("delete", "erase"):
            return Outcome(state is not None, None)
        if operation.name == "create":
            state = state or (1, None)
        elif operation.name.startswith("write") and state is None:
            return Outcome(MISSING, None)
        elif operation.name.startswith("write"):
            state = (state[0] + 1, str(operation.argument))
        return Outcome(state, state)


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


MEMORY_CALLS: dict[str, Callable[[Any, int], Any]] = {
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
