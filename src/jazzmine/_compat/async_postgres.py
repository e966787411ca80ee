"""psycopg's async pool, and what its sync pool needs in another form."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from psycopg import AsyncConnection, waiting
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from jazzmine.backends.postgres.errors import TimedOut
from jazzmine.deadline import Deadline

__all__ = ["DeadlineConnection", "DriverPool", "as_pool_worker", "result_within"]

T = TypeVar("T")

DriverPool = AsyncConnectionPool


async def result_within(seconds: float, future: Future[T]) -> T:
    """Return the result of work in a thread, or raise TimeoutError after so many seconds."""
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
    except asyncio.TimeoutError:
        raise TimeoutError(f"no result within {seconds:.3g} s") from None


class DeadlineConnection(AsyncConnection[TupleRow]):
    """A connection that waits for the server until a deadline.

    psycopg's own waiting makes a task of each step, and knows no deadline. The event loop watches
    the socket between two statements, too: starting and stopping that each time took a third of
    the time that a statement took in this process.

    Attributes:
        deadline: until when its calls wait for the server; None for as long as it takes.
    """

    deadline: Deadline | None = None
    _watching: asyncio.AbstractEventLoop | None = None
    _watched = -1
    _ready: asyncio.Future[int] | None = None
    _is_unread = False

    def __del__(self, *options: Any) -> None:
        # The socket must not be closed before; this may be any thread.
        if self._watching is not None:
            with suppress(RuntimeError):  # a closed loop watches nothing
                self._watching.call_soon_threadsafe(self._watching.remove_reader, self._watched)
        super().__del__(*options)

    async def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Run one of psycopg's generators to its end, and return its value.

        Raises:
            TimedOut: the deadline passed before it ended; the server was not waited for.
        """
        loop = asyncio.get_running_loop()
        deadline = self.deadline
        timer: asyncio.TimerHandle | None = None
        try:
            state = next(gen)
            if deadline is not None:
                timer = loop.call_later(deadline.remaining(), self._resolve, 0)
            while True:
                self._ready = ready = loop.create_future()
                if self._watching is None:
                    self._watch(loop)
                if state & waiting.WAIT_W:
                    loop.add_writer(self._watched, self._resolve, waiting.READY_W)
                try:
                    found = await ready
                finally:
                    if state & waiting.WAIT_W:
                        loop.remove_writer(self._watched)
                if deadline is not None and deadline.expired:
                    raise TimedOut("the server did not reply")
                state = gen.send(found)
        except StopIteration as done:
            return done.value
        finally:
            if timer is not None:
                timer.cancel()
            # An error keeps this frame, and so the generator, which may hold a socket.
            gen.close()

    async def close(self) -> None:
        """Close the connection."""
        self._stop_watching()
        await super().close()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._watched = self.pgconn.socket
        loop.add_reader(self._watched, self._readable)
        self._watching = loop

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.remove_reader(self._watched)
            self._watching = None

    def _readable(self) -> None:
        if self._resolve(waiting.READY_R):
            self._is_unread = False
        elif self._is_unread:
            self._stop_watching()  # no statement waits: the server has closed the connection
        else:
            self._is_unread = True  # the loop has looked again before the task has read

    def _resolve(self, result: int) -> bool:
        if self._ready is None or self._ready.done():
            return False
        self._ready.set_result(result)
        return True


async def as_pool_worker(work: Awaitable[T]) -> T:
    """Return the result of some work in a task of the pool, so that the task can be cancelled."""
    try:
        return await work
    except asyncio.CancelledError:
        # The pool catches this, and the task would go on to wait for its next work for ever.
        task = asyncio.current_task()
        assert task is not None
        _cancel_until_done(task)
        raise


def _cancel_until_done(task: asyncio.Task[Any]) -> None:
    if not task.done():
        task.cancel()
        task.get_loop().call_later(0.01, _cancel_until_done, task)
