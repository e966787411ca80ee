"""What a back end of a working-memory store has to provide."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from jazzmine._sync.store import Store
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["Lease", "WorkingMemoryHooks"]


class Lease(NamedTuple):
    """The lock of a conversation, and the working memory as it was when the lock was taken.

    The working memory is the store's own, for one of its transitions to change.
    """

    conversation_id: str
    token: str
    memory: WorkingMemory | None


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
        """Read without the lock; with `renew`, start the time to live anew in the same step."""

    @abstractmethod
    def _acquire(self, conversation_id: str) -> Lease:
        """Take the lock and load; holds nothing if it raises."""

    @abstractmethod
    def _save_and_release(self, lease: Lease, memory: WorkingMemory) -> None:
        """Save under the lock and let it go; still holds it if it raises."""

    def _detached_copy(self, memory: WorkingMemory) -> WorkingMemory:
        """Return a copy of a memory that was leased or saved, for the caller to keep."""
        return memory

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
