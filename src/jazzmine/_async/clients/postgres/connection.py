"""A connection to PostgreSQL whose calls end at a deadline."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import generators, waiting
from psycopg.rows import TupleRow

from jazzmine.backends.postgres.errors import TimedOut
from jazzmine.backends.postgres.schema import Query
from jazzmine.backends.postgres.sockets import reset
from jazzmine.deadline import Deadline

__all__ = ["CANCEL_SECONDS", "Connection"]

# How often, in s, a wait for the server looks for a signal.
_TICK = 0.1
# How long a request to cancel a statement may take, in s.
CANCEL_SECONDS = 1.0


class Connection(psycopg.AsyncConnection[TupleRow]):
    """A connection that waits for the server until a deadline.

    A call on it that is cancelled, or meets the deadline, ends at once and leaves it ACTIVE.

    Attributes:
        deadline: until when its calls wait for the server; None for as long as it takes.
        opened_at: when it was opened, by the monotonic clock.
    """

    deadline: Deadline | None = None
    opened_at: float

    async def wait(self, gen: Any, interval: float = _TICK, timeout: float | None = None) -> Any:
        """Run one of psycopg's generators to its end, and return its value.

        Raises:
            TimedOut: the deadline passed before it ended; the server was not waited for.
        """
        if self.deadline is not None:
            timeout = self.deadline.remaining()
        try:
            return await waiting.wait_async(gen, self.pgconn.socket, interval, timeout)
        except psycopg.OperationalError:
            if self.deadline is not None and self.deadline.expired:
                raise TimedOut("the server did not reply") from None
            raise
        finally:
            # An error keeps this frame, and so the generator, which may hold a socket.
            gen.close()

    async def run(
        self,
        query: Query,
        values: Mapping[str, object] | None = None,
        *,
        prepare: bool | None = None,
    ) -> list[Any]:
        """Run a statement, and return its rows.

        Args:
            query: the statement.
            values: those of its parameters, by name.
            prepare: False plans it for these very values.

        Raises:
            psycopg.Error: it failed, or had no reply before the deadline.
        """
        cursor = self.cursor()
        given = list(map(values.__getitem__, query.names)) if values else None
        # A text without parameters may have several statements, if it is sent as it is.
        await cursor.execute(query.text, given, prepare=prepare, binary=given is not None)
        result = cursor.pgresult
        return await cursor.fetchall() if result is not None and result.nfields else []

    async def cancel_and_close(self) -> None:
        """Ask the server to end the statement that runs, and give the connection up.

        Its socket is reset: otherwise the kernel would go on sending what has not arrived, and the
        server might receive it minutes later.
        """
        # Before version 17, libpq's request blocks the whole process while the network is silent.
        if psycopg.capabilities.has_cancel_safe():
            with suppress(psycopg.Error):
                request = self.pgconn.cancel_conn()
                request.start()
                await waiting.wait_conn_async(
                    generators.cancel(request), _TICK, timeout=CANCEL_SECONDS
                )
        reset(self.pgconn)
        await self.close()
