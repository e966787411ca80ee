"""Send statements to PostgreSQL so that no write takes effect after a later call has returned."""

from __future__ import annotations

from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from jazzmine._sync.message_store.postgres_connection import Connection
from jazzmine.backends.postgres.attempts import Attempts, Parameters, Statement
from jazzmine.backends.postgres.leases import RETIRE, WRITES_OF_AN_ID, is_lease_gone, new_id
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
        self._schema = schema
        self._doubtful: set[int] = set()  # the leases of writes that may still take effect

    def send(self, connection: Connection, statement: Statement) -> list[TupleRow]:
        """Run a statement on a connection, and return its rows.

        Raises:
            psycopg.Error: it failed; the lease of a write without a reply is in doubt.
        """
        if statement.write is None:
            return self._read(connection, statement)
        return self._write(connection, statement, statement.write)

    def _read(self, connection: Connection, statement: Statement) -> list[TupleRow]:
        if self._doubtful and connection.refusal is None:
            self._retire(connection, self._doubtful.copy())
        return self._execute(connection, statement, statement.parameters)

    def _write(
        self, connection: Connection, statement: Statement, write: Attempts
    ) -> list[TupleRow]:
        if connection.refusal is not None:
            raise connection.refusal
        if self._doubtful or write.doubtful:
            leases = self._retire(connection, self._doubtful | write.doubtful.keys())
            if (outcome := write.outcome(leases)) is not None:
                return [outcome]
        lease, calls = connection.lease, connection.calls + 1
        next_lease = lease if calls % WRITES_OF_AN_ID else new_id()
        fence = {"lease": lease, "next_lease": next_lease, "calls": calls}
        try:
            rows = self._execute(connection, statement, {**statement.parameters, **fence})
        except BaseException as error:
            if _is_unknown(connection, error):
                write.doubt({lease, next_lease}, calls)
                self._doubtful.update(write.doubtful)
            raise
        connection.lease, connection.calls = next_lease, calls
        return rows

    def _execute(
        self, connection: Connection, statement: Statement, parameters: Parameters
    ) -> list[TupleRow]:
        cursor = connection.execute(
            statement.sql, parameters, prepare=statement.prepare, binary=True
        )
        return cursor.fetchall() if statement.has_rows else []

    def _retire(self, connection: Connection, leases: set[int]) -> list[TupleRow]:
        # This waits for those that are about to be committed.
        statement = Statement(bind(RETIRE, self._schema), {"leases": list(leases)}, prepare=False)
        rows = self._execute(connection, statement, statement.parameters)
        self._doubtful -= leases
        return rows


def _is_unknown(connection: Connection, error: BaseException) -> bool:
    """Return whether a write that raised an error may have taken effect, or may do so later."""
    is_idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
    return not is_idle and not is_lease_gone(error)
