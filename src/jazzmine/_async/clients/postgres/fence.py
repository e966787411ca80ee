"""Send statements to PostgreSQL so that no write takes effect after a later call has returned."""

from __future__ import annotations

from typing import Any

from psycopg.pq import TransactionStatus

from jazzmine._async.clients.postgres.connection import Connection
from jazzmine.backends.postgres.attempts import Attempt, Read, Write, require_answer
from jazzmine.backends.postgres.leases import (
    ANSWER,
    RETIRE,
    WRITES_OF_AN_ID,
    is_lease_gone,
    new_id,
)
from jazzmine.backends.postgres.schema import bind

__all__ = ["Fence"]


class Fence:
    """Sends writes under the leases of their connections, and retires leases that are in doubt.

    Each write needs the lease of its connection. If a write has no reply, the next statement of
    the store, a read or a write, deletes that lease first.

    Args:
        schema: the schema of the table of leases.
    """

    def __init__(self, schema: str) -> None:
        self._retire_leases = bind(RETIRE, schema)
        self._answer = bind(ANSWER, schema)
        self._doubtful: set[int] = set()  # the leases of writes that may still take effect

    async def read(self, connection: Connection, read: Read) -> list[Any]:
        """Run a query on a connection, and return its rows.

        Raises:
            psycopg.Error: it failed.
        """
        if self._doubtful and connection.refusal is None:
            await self._retire(connection, self._doubtful.copy())
        return await connection.run(read.query, read.parameters, prepare=read.prepare)

    async def write(self, connection: Connection, write: Write) -> str:
        """Run a write on a connection, and return its answer.

        Raises:
            psycopg.Error: it failed; the lease of a write without a reply is in doubt.
        """
        if connection.refusal is not None:
            raise connection.refusal
        if self._doubtful or write.attempts:
            leases = self._doubtful.union(*(attempt.leases for attempt in write.attempts))
            answer: str | None = write.answer(await self._retire(connection, leases))
            if answer is not None:
                return answer
        lease, calls = connection.lease, connection.calls + 1
        next_lease = lease if calls % WRITES_OF_AN_ID else new_id()
        fence = {"lease": lease, "next_lease": next_lease, "call": calls}
        try:
            rows = await connection.run(write.query, {**write.parameters, **fence})
            connection.lease, connection.calls = next_lease, calls
            answer = rows[0][0]
            if answer is None:
                rows = await connection.run(self._answer, {"lease": next_lease}, prepare=False)
                answer = require_answer(rows[0][0] if rows else None)
        except BaseException as error:
            if _is_unknown(connection, error):
                write.attempts.append(Attempt({lease, next_lease}, calls))
                self._doubtful |= {lease, next_lease}
            raise
        return answer

    async def _retire(self, connection: Connection, leases: set[int]) -> list[Any]:
        # This waits for those that are about to be committed.
        rows = await connection.run(self._retire_leases, {"leases": list(leases)}, prepare=False)
        self._doubtful -= leases
        return rows


def _is_unknown(connection: Connection, error: BaseException) -> bool:
    """Return whether a write that raised an error may have taken effect, or may do so later."""
    is_idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
    return not is_idle and not is_lease_gone(error)
