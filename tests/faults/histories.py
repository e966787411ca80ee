"""Random concurrent calls on one conversation, and what each may return."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

from jazzmine import LockLostError, LockTimeoutError, StoreUnavailableError
from jazzmine.core.working_memory import TurnCache
from tests.behaviour.samples import message
from tests.faults.linearizability import UNKNOWN, Operation, Outcome

__all__ = [
    "MEMORY_CALLS",
    "MESSAGE_CALLS",
    "READS",
    "Recorder",
    "memory_model",
    "message_model",
    "message_set_model",
]

IDS = ("m0", "m1", "m2")
KEY = "c1"
READS = ("get", "list")
OUTCOME_UNKNOWN = (StoreUnavailableError, LockTimeoutError, LockLostError)


class Recorder:
    """One client: makes random calls, and remembers when each began and ended.

    Args:
        calls: what each name does to a store, given a number that no other call has.
        seed: of the client's own choices, and part of its numbers.
    """

    def __init__(self, calls: dict[str, Callable[[Any, int], Any]], seed: int) -> None:
        self._calls = calls
        self._random = random.Random(seed)
        self._next = seed * 1_000_000
        self.history: list[Operation] = []

    def choose(self) -> tuple[str, int]:
        """The next call: its name and its number."""
        self._next += self._random.randrange(1, 4)
        return self._random.choice(list(self._calls)), self._next

    def call(self, store: Any) -> None:
        """Make one call of the blocking face."""
        name, number = self.choose()
        began = time.monotonic()
        try:
            result = self._calls[name](store, number)
        except OUTCOME_UNKNOWN:
            result = UNKNOWN
        except OSError:
            return  # the disk failed: nothing was written
        self._remember(name, number, began, result)

    async def call_awaited(self, store: Any, cancelled: float) -> None:
        """Make one call of the awaitable face.

        Args:
            cancelled: how likely it is to be cancelled.
        """
        name, number = self.choose()
        began = time.monotonic()
        call = asyncio.ensure_future(self._calls[name](store, number))
        if self._random.random() < cancelled:
            asyncio.get_running_loop().call_later(self._random.uniform(0, 0.003), call.cancel)
        try:
            result = await call
        except (*OUTCOME_UNKNOWN, asyncio.CancelledError):
            result = UNKNOWN
        except OSError:
            return
        self._remember(name, number, began, result)

    def _remember(self, name: str, number: int, began: float, result: Any) -> None:
        if isinstance(result, list):
            result = tuple((record.id, record.episode_id) for record in result)
        elif hasattr(result, "revision"):
            result = (result.revision, result.last_agent_response)
        elif hasattr(result, "episode_id"):
            result = result.episode_id
        operation = Operation(name, number, began, time.monotonic(), result)
        self.history.append(operation)


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
    """What a call does to the messages of a conversation: pairs of id and number, in order."""
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


def message_set_model(state: Any, operation: Operation) -> Outcome:
    """The same without any order among the messages."""
    result, stored = message_model(state, operation)
    pairs: Any = stored
    if operation.name == "list":
        result = tuple(sorted(result))
    return Outcome(result, tuple(sorted(pairs)))


MEMORY_CALLS: dict[str, Callable[[Any, int], Any]] = {
    "begin": lambda store, n: store.begin_turn(KEY, TurnCache(n)),
    "end": lambda store, n: store.end_turn(KEY, str(n), "intent"),
    "get": lambda store, n: store.get(KEY),
}


def memory_model(state: Any, operation: Operation) -> Outcome:
    """What a call does to a working memory: its revision and its last response."""
    revision, response = state
    if operation.name == "begin":
        state = (revision + 1, response)
    elif operation.name == "end":
        state = (revision + 1, str(operation.argument))
    return Outcome(state, state)
