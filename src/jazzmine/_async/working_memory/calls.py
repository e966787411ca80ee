"""A call that changes a working memory, and a block that holds its lock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple, TypeAlias

from jazzmine._async.working_memory.backend import Lock, Stored
from jazzmine.deadline import Deadline, call_deadline
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["Block", "Call", "Change", "Decide"]


class Change(NamedTuple):
    """What a call makes of a conversation's state: another one, or None to delete it."""

    memory: WorkingMemory | None


# What a call makes of what is stored, whose `data` is a working memory that it must not change, or
# None. It returns None where there is nothing to change, or raises; it may be called several times.
Decide: TypeAlias = "Callable[[Stored], Change | None]"


@dataclass(eq=False)
class Call:
    """A call that changes a conversation, from when it waits for those before it.

    Attributes:
        deadline: when it has to end.
    """

    conversation_id: str
    deadline: Deadline
    _waits_until: Deadline | None = None

    def waits_at_most(self, seconds: float) -> float:
        """Return how long it may still wait for a block, of so many s since it first waited."""
        if self._waits_until is None:
            self._waits_until = call_deadline(seconds)
        return min(self._waits_until.remaining(), self.deadline.remaining())


@dataclass(eq=False)
class Block(Call):
    """A `locked` block.

    Attributes:
        lock: what it asks the back end for; None before and after.
        stored: what was stored when the lock was taken.
        began: when, on the monotonic clock.
    """

    lock: Lock | None = None
    stored: Stored = field(default_factory=Stored)
    began: float = field(default_factory=monotonic)
