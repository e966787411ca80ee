"""Random concurrent calls on one conversation as a log, and their valid results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jazzmine import ANY, AnyMessage, ConflictError, IntegrityError, Message
from tests.behaviour.samples import NOW, message
from tests.faults.linearizability import Operation, Outcome
from tests.faults.recorders import CONFLICT, MISSING, RandomCalls

KEY = "c1"


class Given(NamedTuple):
    """What a call is given.

    Args:
        ids: those of the messages to append, in order.
        clock: how far the caller's clock is ahead, in ms.
        last: the id that is expected to be the newest, or after which messages are deleted.
    """

    ids: tuple[str, ...] = ()
    clock: int = 0
    last: str | AnyMessage | None = None

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


class LogRecorder(RandomCalls[Given]):
    """One client: its seed is part of the ids of its messages.

    The state is the ids of the messages, in order.
    """

    # A repetition may find a part of what its first attempt has stored, if the rest was popped.
    unknown = (*RandomCalls.unknown, IntegrityError)
    first = ()
    reads = ("list",)

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

    def reads_of_all(self) -> list[tuple[str, Given]]:
        """The list of all messages."""
        return [("list", Given())]

    def is_related(self, one: Operation, other: Operation) -> bool:
        """What was given up is not kept from taking effect by a read."""
        return other.name not in self.reads

    def _start(self, store: Any, name: str, given: Given) -> Any:
        return CALLS[name](store, given)

    def _found(self, name: str, given: Given, result: Any) -> Any:
        if isinstance(result, ConflictError):
            self._newest = result.newest_id
            return CONFLICT, result.newest_id
        if isinstance(result, list):
            self._newest = result[-1].id if result else None
            return tuple(one.id for one in result)
        return result.id if isinstance(result, Message) else result

    def model(self, state: Any, operation: Operation) -> Outcome:
        """What a call does to the messages of a conversation."""
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
