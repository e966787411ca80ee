"""A change to stored data that is committed together with others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Change"]

T = TypeVar("T")


class Change(Generic[T]):
    """A function to apply to a T, and its result or error.

    A change is either applied by a commit or withdrawn by its caller: the first to claim it
    decides. A commit that could not begin leaves it unclaimed, for a later commit to apply.

    Args:
        apply: changes the T, and returns the result of the call.
        waited: how long its call has waited already, in s.
        flushed: whether its call waits for the disk; otherwise a crash of the machine may undo it.
        done: the event for which its call waits, if it has one.
    """

    __slots__ = ("_claim", "apply", "done", "error", "flushed", "result", "since", "withdrawn")

    def __init__(
        self,
        apply: Callable[[T], Any],
        waited: float = 0.0,
        *,
        flushed: bool = True,
        done: Any = None,
    ) -> None:
        self.apply: Callable[[T], Any] = apply
        self.flushed: bool = flushed
        self.done: Any = done
        self.since: float = time.monotonic() - waited
        self.withdrawn: bool = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._claim = threading.Lock()

    @property
    def claimed(self) -> bool:
        """Whether the change was applied, failed or was withdrawn."""
        return self._claim.locked()

    def claim(self) -> bool:
        """Claim the change; return True for the first claim, False for every later one."""
        return self._claim.acquire(blocking=False)

    def withdraw(self) -> bool:
        """Prevent the change from being applied; return False if a commit has claimed it."""
        if self.claim():
            self.withdrawn = True
        return self.withdrawn

    def fail(self, error: BaseException) -> None:
        """Set the error of a change that has none."""
        self.claim()
        self.error = self.error or error

    def unclaim(self) -> None:
        """Drop the result of a commit that changed nothing, so that another can claim the change.

        Only the thread that has claimed it may call this.
        """
        self.result = self.error = None
        self._claim.release()

    def outcome(self) -> Any:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result
