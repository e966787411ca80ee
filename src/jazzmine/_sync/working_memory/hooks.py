"""What a back end of a working-memory store has to provide."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from jazzmine._sync.store import Store
from jazzmine.deadline import Deadline
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["Lease", "WorkingMemoryHooks"]


# The deadline of a lease that has none.
_NEVER = Deadline(float("inf"))


@dataclass(eq=False, slots=True)
class Lease:
    """The lock of a conversation that a call holds, or is about to take.

    It is made before anything is taken, so that an interrupted call knows what to release.

    The fields after `memory` are those of stores whose locks are kept by a server
    (`LeasedStoreBase`).

    Attributes:
        token: what tells this lease from all others of the conversation.
        memory: the working memory as it was when the lock was taken: the store's own, for one
            of its transitions to change.
        deadline: when the call that needs the lock has to end.
        expiry: when the lock expires unless it is renewed.
        released: the token of this store's last lease of the conversation, which is over.
        tries: how often the lock has been tried for before.
        entry: the lease's entry in a queue of the server; empty while there is none.
    """

    conversation_id: str
    token: str = ""
    memory: WorkingMemory | None = None
    deadline: Deadline = _NEVER
    expiry: Deadline = _NEVER
    released: str = ""
    tries: int = 0
    entry: str = ""


class WorkingMemoryHooks(Store):
    """What a back end implements, beside the methods that every store has (`Store`).

    Arguments are checked before a hook is called.
    """

    @classmethod
    @abstractmethod
    def _configured(cls, config: Any) -> WorkingMemoryHooks:
        """Make the store of a configuration, which is of the back end's own class."""

    @abstractmethod
    def _load(self, conversation_id: str, *, renew: bool = False) -> WorkingMemory | None:
        """Read without the lock; with `renew`, start the time to live anew in the same step.

        The result is the caller's.
        """

    @abstractmethod
    def _acquire(self, lease: Lease) -> None:
        """Take the lock of the lease's conversation, and load its memory into the lease.

        If it raises, the lease is released like one whose lock was taken.
        """

    @abstractmethod
    def _save_and_release(self, lease: Lease, memory: WorkingMemory) -> None:
        """Save under the lock and let it go; still holds it if it raises.

        The store may keep the memory: the caller gets a copy.
        """

    @abstractmethod
    def _release(self, lease: Lease) -> None:
        """Let the lock go, if it is still held."""

    def _release_after_error(self, lease: Lease, error: BaseException) -> None:
        """Let the lock go, if it is still held, after an error; raises nothing of its own.

        Args:
            error: what was raised under the lock. A cancelled call does not wait for a server.
        """
        self._release(lease)

    def _renewing(self, lease: Lease) -> AbstractContextManager[None]:
        """Keep the lock from expiring in a block of any length."""
        return nullcontext()

    @abstractmethod
    def _delete(self, lease: Lease) -> bool:
        """Delete under the lock and let it go; True if there was a working memory."""

    @abstractmethod
    def _count(self) -> int: ...

    @abstractmethod
    def _conversations_of(self, user_id: str) -> list[str]:
        """Return the conversations whose working memory is a user's, moved-aside ones too."""

    @abstractmethod
    def _erase(self, conversation_id: str, user_id: str) -> int:
        """Under its lock, delete a conversation's working memory if it is a user's.

        That which was moved aside is deleted as well, and neither is read.

        Returns:
            How many were deleted.
        """
