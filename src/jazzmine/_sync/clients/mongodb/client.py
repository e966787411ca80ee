"""The client of a MongoDB server: repeats a call until its deadline if a connection is lost."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import pymongo
from pymongo.driver_info import DriverInfo
from pymongo.errors import ConfigurationError, InvalidURI, NetworkTimeout, PyMongoError

from jazzmine._sync.background import BackgroundTask
from jazzmine._sync.clients.mongodb.schema import Schema
from jazzmine._sync.clients.mongodb.types import Client, Collection, Session
from jazzmine._sync.keyed_locks import KeyedLocks
from jazzmine._compat.sync_concurrency import Work, current_caller, sleep
from jazzmine.backends.mongodb.driver import (
    DURABLE,
    LENIENT,
    MAJORITY,
    PRIMARY,
    SNAPSHOT,
    client_options,
    invalid_address,
    server_names,
)
from jazzmine.backends.mongodb.errors import Retries, is_known_after, translated, was_interrupted
from jazzmine.backends.mongodb.indexes import Index
from jazzmine.config import MongoDBConfig
from jazzmine.deadline import Deadline, begin_call, call_deadline
from jazzmine.errors import JazzmineError, StoreUnavailableError

__all__ = ["MongoDBClient"]

T = TypeVar("T")

_SECONDS_TO_RETIRE = 0.5
# A program that is about to exit has exited by then, and interrupts no command.
_SECONDS_BEFORE_RETIRING = 0.05
_LEAST_SECONDS = 0.001  # to the driver, 0 means no deadline

# https://www.mongodb.com/docs/manual/reference/operator/aggregation/percentile/ (MongoDB 7.0)
_WIRE_VERSION_WITH_PERCENTILE = 21


class MongoDBClient:
    """A client of PyMongo, and the collections of a store.

    If the deployment has transactions, all commands of a write are sent in one session, with
    ascending transaction numbers. The driver repeats a single command with the same number, so
    that the server executes it once. If the outcome of a call is unknown, its session is
    doubtful: the next call first begins a transaction in it. From then on the server refuses
    commands of the former call that arrive late, because their number is too old.

    https://www.mongodb.com/docs/manual/core/retryable-writes/
    https://github.com/mongodb/specifications/blob/master/source/retryable-writes/retryable-writes.md

    Args:
        config: where the server is.
        indexes: those of each collection, by its name.
        fields: the names of the fields that this version stores, as in `Schema`.
    """

    def __init__(
        self,
        config: MongoDBConfig,
        indexes: Mapping[str, Sequence[Index]],
        fields: Sequence[str],
    ) -> None:
        self._config = config
        self._indexes = indexes
        self._fields = fields
        self._names = server_names(config.uri, config.url_options())
        self._inherited: list[Client] = []
        self.has_transactions = False
        self.has_percentiles = False
        self._connect()

    def _connect(self) -> None:
        client, config = None, self._config
        with suppress(InvalidURI, ConfigurationError, ValueError, TypeError):
            options = client_options(config.uri, config.timeout)
            client = Client(config.uri, connect=False, driver=DriverInfo("jazzmine"), **options)
        if client is None:
            raise invalid_address()
        codec = client.codec_options.with_options(**LENIENT)
        self._database = client.get_database(
            config.db, codec, PRIMARY, write_concern=DURABLE, read_concern=MAJORITY
        )
        self._client = client
        #: The collections of the store by their names; after a fork they are other objects.
        self.collections: dict[str, Collection] = {
            name: self._database[name] for name in self._indexes
        }
        self._doubtful: deque[Session] = deque()
        # The threads or tasks that make a call.
        self._calling: set[object] = set()
        self._lines: KeyedLocks[object] = KeyedLocks()
        # Writes that wait at the server for a locked record leave a connection for reads.
        connections = client.options.pool_options.max_pool_size
        self._writes: KeyedLocks[object] = KeyedLocks(max(1, int(connections or sys.maxsize) - 1))
        self._retiring: KeyedLocks[object] = KeyedLocks()
        self._background = BackgroundTask(self._retire_in_background)

    def after_fork(self) -> None:
        """Open new connections in a forked process; the parent keeps the inherited ones."""
        # Kept, because a client that is garbage-collected closes the connections of the parent.
        self._inherited.append(self._client)
        self._connect()

    def close(self) -> None:
        """Close all connections."""
        self._refuse_nested()
        self._background.close(0.0)
        if self._doubtful:
            self._retire_quietly()
        self._client.close()

    def open(self) -> None:
        """Query the features of the deployment, check the indexes, and create missing ones.

        Raises:
            ConfigurationError: the collections or their indexes are another application's or a
                newer version's, or the user lacks a right.
        """
        hello = self.command("hello")
        # https://www.mongodb.com/docs/manual/core/transactions/ (not on a standalone server)
        self.has_transactions = "setName" in hello or hello.get("msg") == "isdbgrid"
        self.has_percentiles = hello["maxWireVersion"] >= _WIRE_VERSION_WITH_PERCENTILE
        schema = self._schema()
        missing = self.read(schema.missing)
        if missing:
            deadline = Deadline(self._config.migration_timeout)
            self._run(deadline, lambda: schema.create(missing))
            begin_call()

    def pending(self) -> list[str]:
        """Return what `open` would create; nothing is changed.

        Raises:
            ConfigurationError: as in `open`.
        """
        return (self.read(self._schema().missing)).steps()

    def noted(self, name: str) -> dict[str, Any] | None:
        """Return what is noted of the schema under a name, or None."""
        return self.read(lambda: self._schema().noted(name))

    def change_search(self, language: str | None, timeout: float) -> None:
        """Make the indexes of words and note the language; or remove both.

        Raises:
            ConfigurationError: an index prevents that, or the user lacks a right.
        """
        self._run(Deadline(timeout), lambda: self._schema().change_search(language))
        begin_call()

    def complete_search(self, language: str) -> None:
        """Note that all messages are in the index of a language."""
        self.read(lambda: self._schema().complete_search(language))

    def _schema(self) -> Schema:
        return Schema(self._client, self._database, self._indexes, self._fields)

    def command(self, name: str) -> dict[str, Any]:
        """Return the server's reply to a command that has no arguments."""
        return self.read(lambda: self._client.admin.command(name))

    def unreachable(self) -> list[str]:
        """Return the addresses of the servers that the driver knows and cannot reach."""
        servers = self._client.topology_description.server_descriptions()
        return [
            f"{host}:{port}" for (host, port), server in servers.items() if server.error is not None
        ]

    def _refuse_nested(self) -> object:
        """Return what makes this call; raise `RuntimeError` if that is within another one.

        A signal handler's call would wait for that, or for one of the driver's locks, which has no
        time limit.
        """
        caller = current_caller()
        if caller in self._calling:
            raise RuntimeError(
                "a call of a MongoDB store was made within another one, by a signal handler: it"
                " would wait for itself"
            )
        return caller

    def _unanswered(self) -> StoreUnavailableError:
        """Return the error of a call that waited for another one until its deadline."""
        return StoreUnavailableError(
            f"MongoDB at {self._names} did not answer a call that this one waited for"
        )

    def read(self, work: Work[T]) -> T:
        """Call `work`, which only reads; after a transient error again, until the deadline.

        Args:
            work: takes nothing.

        Raises:
            StoreUnavailableError: the server did not answer in time.
        """
        caller = self._refuse_nested()
        try:
            self._calling.add(caller)
            return self._run(call_deadline(self._config.timeout), work)
        finally:
            self._calling.discard(caller)

    def write(self, ids: Iterable[str], work: Work[T]) -> T:
        """Call `work`, which may be repeated; after a transient error again, until the deadline.

        It waits here for the calls before it that write to the same records, without a connection,
        and not at the server: there it would have to repeat a transaction that conflicts with
        another one.

        Args:
            ids: those of conversations, or of messages whose conversation is not known.
            work: takes the session to send commands in. It is None on a standalone server, where a
                session gives no protection from late commands.

        Raises:
            StoreUnavailableError: the server did not answer in time.
        """
        deadline, owner = call_deadline(self._config.timeout), object()
        # In one order everywhere: no two calls wait for each other.
        keys = sorted(set(ids))
        caller = self._refuse_nested()
        session, is_known, is_cancelled = None, False, False

        def attempt() -> T:
            try:
                if not self._writes.acquire("", owner, deadline.remaining()):
                    raise self._unanswered()
                return work(session)
            finally:
                self._writes.release("", owner)

        try:
            self._calling.add(caller)
            for key in keys:
                if not self._lines.acquire(key, owner, deadline.remaining()):
                    raise self._unanswered()
            if self.has_transactions:
                session = self._client.start_session(causal_consistency=False)
            result = self._run(deadline, attempt)
            is_known = True
            return result
        except Exception as error:
            is_known = not deadline.expired and is_known_after(error)
            raise
        except BaseException:
            is_cancelled = True
            raise
        finally:
            # Before the calls that wait for this one go on.
            if session is not None and (not is_known or was_interrupted(session)):
                self._doubtful.append(session)
                session = None
            for key in keys:
                self._lines.release(key, owner)
            self._calling.discard(caller)
            if is_cancelled:
                self._background.start()
            if session is not None:
                session.end_session()

    def transaction(self, ids: Iterable[str], work: Work[T]) -> T:
        """Call `work` as `write` does, in a transaction."""
        return self.write(ids, lambda session: self.commit(session, work))

    def commit(self, session: Session | None, work: Work[T]) -> T:
        """Call `work` in a transaction of a session; without one on a standalone server."""
        if session is None:
            return work(None)
        session.start_transaction(SNAPSHOT, DURABLE, PRIMARY)
        try:
            result = work(session)
        except Exception:
            # Not after a cancellation, which must not wait for the server.
            session.abort_transaction()
            raise
        while True:
            try:
                session.commit_transaction()
                return result
            except PyMongoError as error:
                if error.timeout or not error.has_error_label("UnknownTransactionCommitResult"):
                    raise

    def _run(self, deadline: Deadline, work: Work[T]) -> T:
        retries: Retries | None = None
        with pymongo.timeout(max(deadline.remaining(), _LEAST_SECONDS)):
            while True:
                try:
                    if self._doubtful:
                        self._retire_doubtful(deadline)
                    return work()
                except PyMongoError as error:
                    if isinstance(error, NetworkTimeout):
                        self._replace_connections()
                    retries = retries or Retries(deadline)
                    pause = retries.pause_after(error)
                    if pause is None:
                        reached = self._client.topology_description.has_writable_server()
                        raise translated(error, self._names, reached=reached) from error
                sleep(pause)

    def _replace_connections(self) -> None:
        """Replace all connections that are open, because one of them did not reply in time.

        The driver would continue to use them: it does not treat a command's timeout as a
        network error, and it has no public method that replaces connections.
        """
        with suppress(AttributeError):
            for server in list(self._client._topology._servers.values()):
                server.pool.reset_without_pause()

    def _retire_doubtful(self, deadline: Deadline) -> None:
        """Make the server refuse late commands of calls whose outcome is unknown.

        Calls wait until that is done. It also aborts the open transactions of those calls,
        which the server would keep for a minute, with locks on the documents they wrote.
        """
        owner = object()
        try:
            if not self._retiring.acquire("", owner, deadline.remaining()):
                raise self._unanswered()
            while self._doubtful:
                session = self._doubtful[0]
                self._supersede(session)
                self._doubtful.popleft()
                session.end_session()
        finally:
            self._retiring.release("", owner)

    def _supersede(self, session: Session) -> None:
        """Begin a transaction in a session, on each shard, and abort it."""
        if session.in_transaction:
            session.abort_transaction()
        session.start_transaction(SNAPSHOT, DURABLE, PRIMARY)
        for collection in self.collections.values():
            collection.find_one({}, {"_id": 1}, session=session)
        session.abort_transaction()

    def _retire_in_background(self) -> None:
        sleep(_SECONDS_BEFORE_RETIRING)
        self._retire_quietly()

    def _retire_quietly(self) -> None:
        """Retire doubtful sessions, or leave that to the next call."""
        deadline = Deadline(_SECONDS_TO_RETIRE)
        try:
            with pymongo.timeout(_SECONDS_TO_RETIRE):
                self._retire_doubtful(deadline)
        except NetworkTimeout:
            self._replace_connections()
        except (PyMongoError, JazzmineError):
            pass
        except RuntimeError:
            pass  # the program ends: the driver starts no more threads to look up a host
