"""A call that changes a working memory, a block that holds its lock, and their limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import get_ident
from time import monotonic
from typing import NamedTuple, TypeAlias

from jazzmine._async.working_memory.backend import Lock, Mark, Stored
from jazzmine.config import require_seconds
from jazzmine.deadline import Deadline
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["Block", "Call", "Change", "Decide", "Limits"]


class Limits(NamedTuple):
    """The times of a store, in s.

    Attributes:
        lock_timeout: how long a call waits for a `locked` block.
        lease_seconds: how long the lock of a block that was killed delays others.
        timeout: how long a call may take.
    """

    lock_timeout: float
    lease_seconds: float
    timeout: float

    @property
    def longest_wait(self) -> float:
        """How long a call waits for a block, which is a part of its time."""
        return min(self.lock_timeout, self.timeout)

    def require(self) -> None:
        """Raise unless each is a positive number of seconds."""
        for name, value in self._asdict().items():
            require_seconds(name, value)


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
        waits_until: how long it waits for a block.
        mark: that of its last request.
        decides_in: the thread in which it applies a transition now.
    """

    conversation_id: str
    deadline: Deadline
    waits_until: Deadline
    mark: Mark | None = None
    decides_in: int | None = None

    def apply(self, decide: Decide, stored: Stored) -> Change | None:
        """Return what a transition makes of what is stored."""
        self.decides_in = get_ident()
        try:
            return decide(stored)
        finally:
            self.decides_in = None


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
