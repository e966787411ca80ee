"""What a call makes of a working memory, and the block that holds its lock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple, TypeAlias

from jazzmine._sync.working_memory.backend import Lock, Stored
from jazzmine.deadline import Deadline
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["Block", "Change", "Decide"]


class Change(NamedTuple):
    """What a call makes of a conversation's state: another one, or None to delete it."""

    memory: WorkingMemory | None


# What a call makes of what is stored, whose `data` is a working memory that it must not change, or
# None. It returns None where there is nothing to change, or raises; it may be called several times.
Decide: TypeAlias = "Callable[[Stored], Change | None]"


@dataclass(eq=False)
class Block:
    """A `locked` block.

    Attributes:
        free_by: until when it waits for other calls.
        lock: what it asks the back end for; None before and after.
        stored: what was stored when the lock was taken.
        began: when, on the monotonic clock.
    """

    conversation_id: str
    free_by: Deadline
    lock: Lock | None = None
    stored: Stored = field(default_factory=Stored)
    began: float = field(default_factory=monotonic)
