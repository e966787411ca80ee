"""The client of a MongoDB server: single commands and transactions, each with a deadline."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from errno import ECONNREFUSED
from functools import partial
from typing import Any, TypeVar

import pymongo
from pymongo.driver_info import DriverInfo
from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    DocumentTooLarge,
    InvalidURI,
    PyMongoError,
)

from jazzmine._sync.clients.mongodb.schema import Schema
from jazzmine._sync.clients.mongodb.types import Client, Collection, Session
from jazzmine._sync.keyed_locks import KeyedLocks
from jazzmine._compat.concurrency import SyncWork as Work
from jazzmine._compat.concurrency import sync_run_in_task as run_in_task
from jazzmine._compat.concurrency import sync_sleep as sleep
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
from jazzmine.backends.mongodb.errors import translated
from jazzmine.backends.mongodb.indexes import Index
from jazzmine.config import MongoDBConfig
from jazzmine.deadline import Deadline, begin_call, call_deadline
from jazzmine.errors import StoreClosedError, StoreUnavailableError

T = TypeVar("T")

logger: logging.Logger = logging.getLogger(__name__)

_STANDALONE = (
    "MongoDB runs as a standalone server, without transactions: a call that fails may leave a part"
    " of its records, which `jazzmine doctor` finds; make it a replica set of one server"
    " (mongod --replSet rs0, then rs.initiate())"
)
_LEAST_SECONDS = 0.001  # to the driver, 0 means no deadline
_SECONDS_UNTIL_REFUSED = 0.4
_SECONDS_TO_END = 0.4


class MongoDBClient:
    """A client of PyMongo, and the collections of a store.

    The driver repeats a command or a transaction after a lost connection, until the deadline.

    https://www.mongodb.com/docs/languages/python/pymongo-driver/current/connect/connection-options/csot/
    https://www.mongodb.com/docs/manual/core/transactions/

    Args:
        config: the address and the options.
        indexes: the indexes of each collection, by its name.
    """

    def __init__(self, config: MongoDBConfig, indexes: Mapping[str, Sequence[Index]]) -> None:
        self._config = config
        self._names = server_names(config.uri, config.url_options())
        self.has_transactions = False
        self._closed = False
        self._sessions: set[Session] = set()  # those of the transactions that have begun
        client = None
        with suppress(InvalidURI, ConfigurationError, ValueError, TypeError):
            options = client_options(config.uri, config.timeout)
            client = Client(config.uri, connect=False, driver=DriverInfo("jazzmine"), **options)
        if client is None:
            raise invalid_address()
        codec = client.codec_options.with_options(**LENIENT)
        database = client.get_database(
            config.db, codec, PRIMARY, write_concern=DURABLE, read_concern=MAJORITY
        )
        self._client = client
        #: Its methods are called by `run`.
        self.schema = Schema(database, indexes)
        #: The collections of the store by their names.
        self.collections: dict[str, Collection] = {name: database[name] for name in indexes}
        # Of two transactions that write to one document, the server aborts one. So those of this
        # process that would conflict wait for each other here.
        self._transactions: KeyedLocks[object] = KeyedLocks()

    def close(self) -> None:
        """Close all connections, after the transactions that have begun; others are refused."""
        self._closed = True
        longest = Deadline(_SECONDS_TO_END)
        # One that is left open would keep its documents from others for a minute.
        while self._sessions and not longest.expired:
            sleep(0.005)
        with pymongo.timeout(_SECONDS_TO_END):  # it says to the server which sessions end
            self._client.close()

    def open(self) -> None:
        """Query the features of the deployment, check the collections, and create what is missing.

        Raises:
            ConfigurationError: the collections or their indexes are another application's or a
                newer version's, or the user lacks a right.
            StoreUnavailableError: the server did not answer in time, or refuses connections.
        """
        try:
            self.connect()
            if not self.has_transactions:
                logger.warning(_STANDALONE)
            for step in self.run(self.schema.missing):
                self.migrate(step.take)
        except BaseException:
            self.close()
            raise

    def migrate(self, work: Work[None]) -> None:
        """Call `work`, which creates or removes indexes and has a longer deadline."""
        self.run(work, self._config.migration_timeout)
        begin_call()

    def connect(self) -> dict[str, Any]:
        """Query the features of the deployment, and return the server's reply to `hello`.

        Raises:
            StoreUnavailableError: at once if each server refuses connections.
        """
        deadline = call_deadline(self._config.timeout)
        hello = partial(self._client.admin.command, "hello")
        try:
            reply = self.run(hello, min(deadline.remaining(), _SECONDS_UNTIL_REFUSED))
        except StoreUnavailableError as error:
            servers = self._client.topology_description.server_descriptions().values()
            # The driver keeps the text of the socket's error: "[Errno 111] Connection refused".
            is_refused = all(f" {ECONNREFUSED}]" in str(server.error) for server in servers)
            if is_refused or deadline.expired or not isinstance(error.__cause__, ConnectionFailure):
                raise
            reply = self.run(hello)
        # https://www.mongodb.com/docs/manual/core/transactions/ (not on a standalone server)
        self.has_transactions = "setName" in reply or reply.get("msg") == "isdbgrid"
        return reply

    def pending(self) -> list[str]:
        """Return what `open` would create, changing nothing, and close all connections.

        Raises:
            ConfigurationError: as in `open`.
        """
        try:
            return [step.text for step in self.run(self.schema.missing)]
        finally:
            self.close()

    def ping(self) -> None:
        """Make one round trip to the server, with a command that the driver repeats."""
        collection = next(iter(self.collections.values()))
        self.run(partial(collection.find_one, {}, {"_id": 1}))

    def run(self, work: Work[T], seconds: float | None = None) -> T:
        """Call `work`, which reads or changes one document.

        Args:
            work: takes nothing.
            seconds: the time that it may take; by default the rest of the call's.

        Raises:
            StoreUnavailableError: the server did not answer in time.
            IntegrityError: a unique value is stored already.
        """
        if seconds is None:
            seconds = call_deadline(self._config.timeout).remaining()
        try:
            with pymongo.timeout(max(seconds, _LEAST_SECONDS)):
                # Structured concurrency cancels a task again and again, also while the driver
                # returns a connection to its pool; a task of its own is cancelled once.
                return run_in_task(work)
        except (PyMongoError, DocumentTooLarge) as error:
            reached = self._client.topology_description.has_writable_server()
            raise translated(error, self._names, reached=reached) from error

    def transaction(self, ids: Iterable[str], work: Work[T]) -> T:
        """Call `work` in a transaction, again if the transaction conflicts with another one.

        Args:
            ids: of the conversations that it changes: transactions of this process that change the
                same ones run one after another.
            work: takes the session to send commands in; None on a standalone server, which has no
                transactions.

        Raises:
            StoreUnavailableError: the server did not answer in time.
            IntegrityError: a unique value is stored already.
        """
        deadline = call_deadline(self._config.timeout)

        def in_time(session: Session | None) -> T:
            if self._closed:  # the driver would begin the transaction again until the deadline
                raise StoreClosedError("this store was closed during the call")
            try:
                with pymongo.timeout(max(deadline.remaining(), _LEAST_SECONDS)):
                    return work(session)
            except BaseException:
                if session is not None:
                    # Also after the deadline, and not for long if the call was cancelled.
                    with pymongo.timeout(_SECONDS_TO_END):
                        session.abort_transaction()
                raise

        def attempt() -> T:
            if not self.has_transactions:
                return in_time(None)
            with self._client.start_session() as session:
                self._sessions.add(session)
                try:
                    result: T = session.with_transaction(in_time, SNAPSHOT, DURABLE, PRIMARY)
                except BaseException:
                    # A commit that was interrupted before it was sent would leave the transaction
                    # open, and others waiting for its documents; after an abort this is refused.
                    if not session.in_transaction:
                        with suppress(PyMongoError), pymongo.timeout(_SECONDS_TO_END):
                            session.commit_transaction()
                    raise
                finally:
                    self._sessions.discard(session)
                return result

        held = partial(self._in_turn, deadline, sorted(set(ids)), attempt)
        return self.run(held, deadline.remaining() + _SECONDS_TO_END)

    def _in_turn(self, deadline: Deadline, keys: Sequence[str], work: Work[T]) -> T:
        owner = object()
        try:
            # In one order everywhere: no two calls wait for each other.
            for key in keys:
                if not self._transactions.acquire(key, owner, deadline.remaining()):
                    raise StoreUnavailableError(
                        f"MongoDB at {self._names} did not answer a call that this one waited for"
                    )
            return work()
        finally:
            for key in keys:
                self._transactions.release(key, owner)
