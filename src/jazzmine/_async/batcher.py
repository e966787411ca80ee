"""Changes that arrive during a commit are committed together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from jazzmine._compat.async_concurrency import Event, Executor
from jazzmine.change import Change

__all__ = ["Batcher"]

T = TypeVar("T")


class _Call(Generic[T]):
    def __init__(self, apply: Callable[[T], Any], waited: float) -> None:
        self.change = Change(apply, waited)
        self.woken = Event()


class Batcher(Generic[T]):
    """Commits changes in order; those that arrive during a commit are committed together next.

    One of the calls, the leader, commits what is waiting; after that the first call that is still
    waiting becomes the leader.

    Args:
        commit: a blocking function that claims each change and sets its result or error. It
            leaves a change unclaimed that the next commit shall try. If it raises, its error
            becomes the error of all changes without one.
    """

    def __init__(self, commit: Callable[[Sequence[Change[T]]], None]) -> None:
        self._commit = commit
        self._executor = Executor("jazzmine-writer")
        self._mutex = threading.Lock()
        self._waiting: list[_Call[T]] = []
        self._settled, self._idle = Event(), Event()
        self._settled.set()
        self._idle.set()

    @property
    def unsettled(self) -> bool:
        """Whether the change of an interrupted call is being committed.

        Reads and writes then wait for `settle()`, so that it cannot take effect after them.
        """
        return not self._settled.is_set()

    async def run(self, apply: Callable[[T], Any], *, waited: float = 0.0) -> Any:
        """Commit a change, and return its result or raise its error.

        A call that is interrupted withdraws its change unless a commit has claimed it.

        Args:
            waited: how much of its time the call has used already, in s.
        """
        call = _Call(apply, waited)
        try:
            with self._mutex:
                self._waiting.append(call)
            while not call.change.done:
                if self._is_leader(call):
                    await self._executor.run(self._commit_waiting, self._finish)
                else:
                    await call.woken.wait()
                    call.woken.clear()
        except BaseException:
            self._withdraw(call)
            raise
        return call.change.outcome()

    async def settle(self) -> None:
        """Wait for the commit of changes whose calls were interrupted."""
        await self._settled.wait()

    async def close(self) -> None:
        """Wait for the commit of all changes."""
        with self._mutex:
            if self._waiting:
                self._idle.clear()
        await self._idle.wait()
        self._executor.close()

    def _is_leader(self, call: _Call[T]) -> bool:
        return call in self._waiting[:1]

    def _commit_waiting(self) -> None:
        with self._mutex:
            batch = [call for call in self._waiting if not call.change.withdrawn]
        try:
            if batch:
                self._commit([call.change for call in batch])
        except Exception as failure:
            for call in batch:
                call.change.fail(failure)
        except BaseException:
            # The leader is interrupted; the changes of the others must still be committed.
            for call in batch:
                call.change.reset()
            raise

    def _finish(self) -> None:
        with self._mutex:
            self._hand_over()

    def _hand_over(self) -> None:
        # An interrupt may end this between any two steps; `_withdraw` then begins it again.
        for call in self._waiting:
            if call.change.claimed:
                call.change.done = True
                call.woken.set()
        if self.unsettled:
            self._settled.set()
        self._waiting = [call for call in self._waiting if not call.change.done]
        self._wake_leader()

    def _withdraw(self, call: _Call[T]) -> None:
        with self._mutex:
            if not call.change.withdraw() and not call.change.done:
                self._settled.clear()
            if self._is_leader(call) and not self._executor.is_busy:
                self._hand_over()
            else:
                self._wake_leader()

    def _wake_leader(self) -> None:
        if self._waiting:
            self._waiting[0].woken.set()
        else:
            self._idle.set()
