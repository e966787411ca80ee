"""What a back end of working memory has to provide."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple, TypeAlias

from jazzmine._async.store import Backend
from jazzmine.deadline import Deadline
from jazzmine.records.unknown_fields import FORMAT
from jazzmine.records.working_memory import WorkingMemory

__all__ = [
    "Again",
    "Lock",
    "Locked",
    "Save",
    "Stored",
    "WorkingMemoryBackend",
    "Written",
    "new_mark",
    "outcome_of",
]

# The length of a mark. The marks of the last 16 saves are kept beside a state.
_LENGTH = 16


def new_mark() -> str:
    """Return the mark of a save, or the token of a lock: no two are the same."""
    return os.urandom(_LENGTH // 2).hex()


class Stored(NamedTuple):
    """What is stored for a conversation.

    Attributes:
        mark: the mark of the last save; "" if nothing is stored.
        data: the state as `StateForm` writes it (a back end of this process may keep the working
            memory itself, which is never changed); None for nothing, or for what is unreadable.
        user_id: the user, as stored beside the state; "" if unknown.
    """

    mark: str = ""
    data: bytes | WorkingMemory | None = None
    user_id: str = ""


class Save(NamedTuple):
    """The request to write a state, or to delete one.

    Attributes:
        mark: the mark of this save.
        read_mark: the mark of what must be stored now; "" for nothing.
        data: the new state, as in `Stored`; None to delete.
        user_id: its user.
        format: the number of the format of the data.
        token: the lock that this save holds and releases; "" without one.
    """

    conversation_id: str
    mark: str
    read_mark: str
    data: bytes | WorkingMemory | None
    user_id: str = ""
    format: int = FORMAT
    token: str = ""


class Lock(NamedTuple):
    """The request to hold a conversation's lock, or to go on holding it.

    Attributes:
        token: tells this lock from all others.
        holder: who holds it, for the errors of others.
        seconds: when it expires, from now on.
        renews: whether it was taken before. A lock that is not held any more is not taken again.
    """

    conversation_id: str
    token: str
    holder: str
    seconds: float
    renews: bool = False


class Written(NamedTuple):
    """The outcome of a save that was done, now or at an earlier attempt."""


class Locked(NamedTuple):
    """The outcome of a save or a lock while another call holds the conversation's lock.

    Attributes:
        holder: who holds it.
        held_for: since when, in s.
    """

    holder: str
    held_for: float


# Makes, from what is stored, the next save of a call; None if it does not apply there.
Again: TypeAlias = "Callable[[Stored], Save | None]"


class WorkingMemoryBackend(Backend):
    """Where working memories are stored: conditional writes, reads, and locks that expire.

    Arguments are checked before. Each method is one round trip, and may be repeated: the back
    end repeats it until the deadline where a reply was lost. A state or a lock that has expired
    is nothing.
    """

    #: Whether it is in this process: it keeps the working memories themselves, and a block ends
    #: with it, so that its lock need not be renewed.
    is_in_process: ClassVar[bool] = False

    @abstractmethod
    async def load(
        self, conversation_id: str, deadline: Deadline, *, renew: bool = False
    ) -> Stored:
        """Return what is stored.

        Args:
            renew: whether the time to live starts anew in the same round trip.
        """

    @abstractmethod
    async def write(
        self, save: Save, again: Again, deadline: Deadline
    ) -> Written | Locked | Stored:
        """Write, if what is stored has the mark that was read.

        In one step:

        - If the lock is free, or held with the save's token, and what is stored has the mark
          `read_mark`, then the state is written with its mark before the 15 marks before it, its
          time to live starts anew, and the lock is released: the outcome is `Written`.
        - If the save's mark is among those stored, an earlier attempt has written: `Written`.
        - If another token holds the lock, the outcome is `Locked`.
        - Otherwise the outcome is what is stored. A back end whose transaction includes this call
          may save `again(stored)` instead, unless that is None.
        """

    @abstractmethod
    async def lock(self, lock: Lock, deadline: Deadline) -> Stored | Locked:
        """Take the lock, or renew it, and return what is stored; or return who else holds it.

        No lock is taken where nothing is stored. The state's time to live starts anew, and lasts
        at least as long as the lock.
        """

    @abstractmethod
    async def unlock(self, conversation_id: str, token: str, deadline: Deadline) -> None:
        """Release the lock if it is held with this token."""

    @abstractmethod
    async def conversations(self, deadline: Deadline, user_id: str | None = None) -> list[str]:
        """Return the conversations that have a state, all of them or those of a user."""

    @abstractmethod
    async def sample(self, limit: int, deadline: Deadline) -> list[str]:
        """Return some conversations that have a state, quickly however many there are."""

    @abstractmethod
    async def count(self, deadline: Deadline) -> int:
        """Return how many conversations have a state."""

    @abstractmethod
    async def replace(
        self, conversation_id: str, stored: Stored, data: bytes, number: int, deadline: Deadline
    ) -> bool:
        """Store another form of the very state that was read, whose time to live stays.

        Args:
            stored: what was read; it has data.
            data: its other form.
            number: that of the format.

        Returns:
            Whether it was stored, also beside a block that holds the lock; False if something else
            is stored by now.
        """

    async def erase_expired(self, user_id: str, deadline: Deadline) -> None:
        """Delete what is left of a user's states that have expired, in the files too."""


def outcome_of(
    save: Save, marks: str, data: bytes | None, user_id: str, locked: Locked | None
) -> Written | Locked | Stored:
    """Return the outcome of a save that has written nothing now.

    Args:
        marks: the marks of the last saves, the newest first; "" if nothing is stored.
        data, user_id: what is stored.
        locked: who else holds the lock.
    """
    if save.mark in marks:
        return Written()
    return locked or stored_of(marks, data, user_id)


def stored_of(marks: str = "", data: bytes | None = None, user_id: str = "") -> Stored:
    """Return what is stored, with the marks of the last saves beside it."""
    return Stored(marks[:_LENGTH], data, user_id)
