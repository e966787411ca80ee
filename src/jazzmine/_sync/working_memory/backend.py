"""What a back end of working memory has to provide."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeAlias

from jazzmine._sync.store import Backend
from jazzmine.deadline import Deadline
from jazzmine.records.stored_memory import Lock, Locked, Save, Stored

# Makes, from what is stored, the next save of a call; or returns it if there is nothing to save.
Again: TypeAlias = "Callable[[Stored], Save | Stored]"


class WorkingMemoryBackend(Backend):
    """Where working memories are stored: conditional writes, reads, and locks that expire.

    Arguments are checked before. Each method is one round trip, and may be repeated: the back
    end repeats it until the deadline where a reply was lost. A state or a lock that has expired
    is nothing.
    """

    #: Whether it is in this process: it keeps the working memories themselves, and a block ends
    #: with it, so that its lock need not be renewed.
    is_in_process: ClassVar[bool] = False

    #: Whether what has expired stays until `sweep` deletes it.
    keeps_expired: ClassVar[bool] = False

    @abstractmethod
    def load(
        self, conversation_id: str, deadline: Deadline, *, renew: bool = False
    ) -> Stored:
        """Return what is stored.

        Args:
            renew: whether the time to live starts anew in the same round trip.
        """

    @abstractmethod
    def write(self, save: Save, again: Again, deadline: Deadline) -> Save | Locked | Stored:
        """Write, if what is stored has the mark that was read.

        In one step:

        - If the lock is free, or held with the save's token, and what is stored has the mark
          `read_mark`, then the state is written with its mark before the 15 marks before it, its
          time to live starts anew, and the lock is released: the outcome is the save.
        - If the save's mark is among those stored, an earlier attempt has written: the same.
        - If another token holds the lock, the outcome is `Locked`.
        - Otherwise the outcome is what is stored. A back end whose transaction includes this call
          may write `again(stored)` instead, which is the outcome then.
        """

    @abstractmethod
    def lock(self, lock: Lock, deadline: Deadline) -> Stored | Locked:
        """Take the lock, renew or release it, and return what is stored, or who else holds it.

        No lock is taken where nothing is stored. The state's time to live starts anew, and lasts
        at least as long as the lock.
        """

    @abstractmethod
    def conversations(
        self, deadline: Deadline, user_id: str | None = None, limit: int | None = None
    ) -> list[str]:
        """Return the conversations that have a state, all of them or those of a user.

        Args:
            limit: how many at most, whichever are found first.
        """

    def sweep(self, deadline: Deadline, user_id: str | None = None) -> bool:
        """Delete some of what has expired, or all of a user's; return whether there may be more."""
        return False
