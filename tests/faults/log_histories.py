"""Random concurrent calls on one conversation as a log, and their valid results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from jazzmine import (
    ANY,
    AnyMessage,
    ConflictError,
    LockTimeoutError,
    Message,
    NotFoundError,
    StoreUnavailableError,
)
from tests.behaviour.samples import NOW, message
from tests.faults.histories import KEY, MISSING
from tests.faults.linearizability import UNKNOWN, Operation, Outcome
from tests.faults.recorders import RandomCalls

LOG_READS = ("list",)
CONFLICT = "conflict"


class Given(NamedTuple):
    """What a call is given.

    Args:
        ids: those of the messages to append, in order.
        clock: how far the caller's clock is ahead, in ms.
        last: the id that is expected to be the newest, or after which messages are deleted.
    """

    ids: tuple[str, ...]
    clock: int
    last: str | AnyMessage | None

    def messages(self) -> list[Message]:
        """The messages to append, with timestamps by a clock that goes wrong."""
        return [message(one, timestamp=NOW + self.clock) for one in self.ids]


CALLS: dict[str, Callable[[Any, Given], Any]] = {
    "append": lambda store, given: store.append_messages(
        KEY, given.messages(), expected_last=given.last
    ),
    "pop": lambda store, given: store.pop_message(KEY),
    "rewind": lambda store, given: store.rewind_conversation(KEY, after=given.last),
    "list": lambda store, given: store.get_messages_by_conversation_id(KEY),
}
NAMES = ["append"] * 6 + ["pop"] * 3 + ["rewind"] + ["list"] * 3


def log_model(state: Any, operation: Operation) -> Outcome:
    """What a call does to the messages of a conversation: their ids, in order."""
    given, newest = operation.argument, state[-1] if state else None
    if operation.name == "list":
        return Outcome(state, state)
    if operation.name == "pop":
        return Outcome(newest, state[:-1])
    if operation.name == "append":
        if given.last not in (ANY, newest):
            return Outcome((CONFLICT, newest), state)
        return Outcome(given.ids, state + given.ids)
    if given.last not in (None, *state):
        return Outcome(MISSING, state)
    kept = 0 if given.last is None else state.index(given.last) + 1
    return Outcome(len(state) - kept, state[:kept])


class LogRecorder(RandomCalls[Given]):
    """One client: its seed is part of the ids of its messages."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._numbers = 0
        self._newest: str | None = None

    def choose(self) -> tuple[str, Given]:
        """Return the name of the next call, and what it is given."""
        name, chance = self._random.choice(NAMES), self._random.random()
        ids = []
        for _ in range(self._random.choice([1, 1, 2]) if name == "append" else 0):
            self._numbers += 1
            ids.append(f"{self.seed}-{self._numbers}")
        last: str | AnyMessage | None = self._newest
        if name == "append" and chance < 0.5:
            last = ANY
        if name == "rewind" and chance < 0.1:
            last = None
        return name, Given(tuple(ids), self._random.randrange(-5, 5), last)

    def _start(self, store: Any, name: str, given: Given) -> Any:
        return CALLS[name](store, given)

    def _remember(self, name: str, given: Given, began: float, result: Any) -> None:
        ended = time.monotonic()
        if isinstance(result, (StoreUnavailableError, asyncio.CancelledError)):
            result = UNKNOWN
        elif isinstance(result, (LockTimeoutError, OSError)):
            return  # nothing was written
        elif isinstance(result, ConflictError):
            self._newest = result.newest_id
            result = (CONFLICT, result.newest_id)
        elif isinstance(result, NotFoundError):
            result = MISSING
        elif isinstance(result, BaseException):
            raise result
        elif isinstance(result, list):
            result = tuple(one.id for one in result)
            self._newest = result[-1] if result else None
        elif isinstance(result, Message):
            result = result.id
        self.history.append(Operation(name, given, began, ended, result))
