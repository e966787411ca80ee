"""The client of an SQLite database: small reads at once, all else in threads."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar, cast

from jazzmine._compat.concurrency import SyncMethod as Method
from jazzmine._compat.concurrency import SyncThreadEvent as ThreadEvent
from jazzmine._compat.concurrency import sync_run_blocking as run_blocking
from jazzmine.backends.sqlite.database import Database
from jazzmine.backends.sqlite.errors import DatabaseBusy, lock_timeout
from jazzmine.backends.sqlite.memory_database import MemoryDatabase
from jazzmine.backends.sqlite.migrations import Component
from jazzmine.backends.sqlite.writer import Call, Writer
from jazzmine.config import SQLiteConfig
from jazzmine.deadline import Deadline, call_deadline
from jazzmine.errors import StoreUnavailableError

P = ParamSpec("P")
T = TypeVar("T")
AnyDatabase: TypeAlias = Database | MemoryDatabase

# A read of so many records takes no longer than passing it to a thread and back.
_FEW_RECORDS = 50

_PING = "SELECT count(*) FROM sqlite_schema"

# How long, in s, a cancelled call waits for the commit of what was begun.
_LONGEST_COMMIT = 1.0


class SQLiteClient:
    """Runs queries and changes of a database.

    Several stores may use it: the first one opens it, and the last one closes it.
    """

    def __init__(self, database: AnyDatabase) -> None:
        self.database: AnyDatabase = database
        self._writer: Writer | None = None
        self._users = 0

    def pending(self) -> list[str]:
        """Return what opening the database would create or change."""
        return run_blocking(self.database.pending)

    def open(self) -> None:
        """Create the file and the tables if they do not exist."""
        if not self._users:
            run_blocking(self.database.open)
            self._writer = Writer(self.database.commit)
        self._users += 1

    def close(self) -> None:
        """Finish the writes, and close the file, unless another store uses it."""
        self._users -= 1
        if not self._users and self._writer is not None:
            deadline = Deadline(self.database.timeout)
            run_blocking(self._writer.close, deadline.remaining())
            run_blocking(self.database.close)

    def ping(self) -> None:
        """Read a page of the file."""
        self.read(lambda connection: connection.execute(_PING).fetchone())

    def read(self, query: Callable[..., T], *arguments: Any, records: int | None = 1) -> T:
        """Return the result of a query of one statement.

        Args:
            query: called with a connection and the arguments.
            arguments: those of the query.
            records: how many records it reads at most; None is any number.
        """
        if records is not None and records <= _FEW_RECORDS:
            try:
                return self.database.read_now(query, *arguments)
            except DatabaseBusy:
                pass
        deadline = call_deadline(self.database.timeout)
        result: T = run_blocking(self.database.read, deadline, query, *arguments)
        return result

    def write(
        self, change: Callable[..., T], *arguments: Any, deadline: Deadline | None = None
    ) -> T:
        """Commit a change, perhaps with others, and return its result.

        A call that is cancelled before its change was begun changes nothing; what was begun is
        done before the call ends, so that a read shows which it was.

        Args:
            change: called in the writing thread with a connection, in a transaction, and the
                arguments.
            arguments: those of the change.
            deadline: until when the call waits; None is the timeout of the database.

        Raises:
            LockTimeoutError: another process or another change took until the deadline.
            StoreUnavailableError: the change itself did; its outcome is unknown.
        """
        assert self._writer is not None, "it is open"
        done = ThreadEvent()
        call = Call(change, arguments, done.set)
        try:
            self._writer.add(call)
            deadline = deadline or call_deadline(self.database.timeout)
            in_time = done.wait(deadline.remaining())
        except GeneratorExit:
            call.cancel()
            raise
        except BaseException:
            if not call.cancel():
                done.wait(_LONGEST_COMMIT)
            raise
        if not in_time:
            raise self._late(call)
        if call.error is not None:
            raise call.error
        result: T = call.result
        return result

    def _late(self, call: Call) -> Exception:
        path, timeout = self.database.path, self.database.timeout
        if call.cancel():
            return lock_timeout(path, timeout)
        return StoreUnavailableError(
            f"{path} was not written within {timeout:g} s; the write may still be done"
        )

    def purge(self) -> None:
        """Remove what was deleted from the database's files, or log that it could not be done."""
        run_blocking(self.database.purge, call_deadline(self.database.timeout))


def reading(
    query: Callable[Concatenate[sqlite3.Connection, P], T], records: int | None = 1
) -> Method[P, T]:
    """Return the hook of a back end that has `read` called by its client."""

    def hook(self: Any, *arguments: Any) -> Any:
        return self.client.read(query, *arguments, records=records)

    return cast("Method[P, T]", hook)


def writing(change: Callable[Concatenate[sqlite3.Connection, P], T]) -> Method[P, T]:
    """Return the hook of a back end that has `write` called by its client."""

    def hook(self: Any, *arguments: Any) -> Any:
        return self.client.write(change, *arguments)

    return cast("Method[P, T]", hook)


def file_client(config: SQLiteConfig, *components: Component) -> SQLiteClient:
    """Return the client of the database in a file, with the tables of some kinds of store."""
    return SQLiteClient(Database(str(config.path), components, config.timeout, config.synchronous))
