"""The client of a MongoDB server: calls within a deadline, repeated if a connection is lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

import pymongo
from pymongo import ReplaceOne
from pymongo.driver_info import DriverInfo
from pymongo.errors import ConfigurationError, InvalidURI, NetworkTimeout, PyMongoError

from jazzmine._sync.message_store.mongodb_schema import Schema
from jazzmine._compat.sync_background import BackgroundTask, sleep
from jazzmine._compat.sync_concurrency import KeyedLocks, Work
from jazzmine._compat.sync_mongodb import Client, Collection, Session
from jazzmine.backends.mongodb.documents import Document
from jazzmine.backends.mongodb.driver import (
    DURABLE,
    LENIENT,
    MAJORITY,
    PRIMARY,
    SNAPSHOT,
    Attempts,
    client_options,
    invalid_address,
    is_known_after,
    server_names,
    translated,
    was_interrupted,
)
from jazzmine.backends.mongodb.indexes import CONVERSATIONS, MESSAGES, TRACES
from jazzmine.backends.mongodb.queries import Listing, equal
from jazzmine.config import MongoDBConfig
from jazzmine.deadline import Deadline
from jazzmine.errors import JazzmineError, NotFoundError, StoreUnavailableError
from jazzmine.records.repair import UNKNOWN_ID

__all__ = ["MongoDBClient"]

T = TypeVar("T")

# How many documents a reply brings at the most; the server also ends one at 16 MiB.
DOCUMENTS_A_REPLY = 1_000
IDS_A_REPLY = 100_000

_SECONDS_TO_TIDY_UP = 0.5
# A program that is about to end has ended by then, and no command is cut off in the middle.
_SECONDS_BEFORE_TIDYING_UP = 0.05
_LEAST_SECONDS = 0.001  # to the driver, 0 is no deadline at all

# The server refuses a sum of skip and limit beyond 64 bits.
_MOST = 2**32

# https://www.mongodb.com/docs/manual/reference/operator/aggregation/percentile/ (MongoDB 7.0)
_WIRE_VERSION_WITH_PERCENTILE = 21


class MongoDBClient:
    """A client of PyMongo's, and the three collections.

    Where the deployment has transactions, all commands of a write are sent in one session,
    with ascending transaction numbers, and the driver repeats a single command with the same
    number: the server carries it out once. If the outcome of a call is unknown, the session is
    doubtful, and the next call first begins a transaction in it: from then on the server
    refuses whatever of the former call is still under way, as its number is too old.

    https://www.mongodb.com/docs/manual/core/retryable-writes/
    https://github.com/mongodb/specifications/blob/master/source/retryable-writes/retryable-writes.md
    """

    conversations: Collection
    messages: Collection
    traces: Collection

    def __init__(self, config: MongoDBConfig) -> None:
        self._config = config
        self._names = server_names(config.uri)
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
        database = client.get_database(
            config.db, codec, PRIMARY, write_concern=DURABLE, read_concern=MAJORITY
        )
        self._client = client
        self.conversations = database[CONVERSATIONS]
        self.messages = database[MESSAGES]
        self.traces = database[TRACES]
        self._doubtful: deque[Session] = deque()
        self._retiring = KeyedLocks()
        self._background = BackgroundTask(self._retire_in_background)

    def after_fork(self) -> None:
        """Open connections of this process's own; the parent keeps the others."""
        # It is kept, because a client that is collected closes what it shares with the parent's.
        self._inherited.append(self._client)
        self._connect()

    def close(self) -> None:
        """Close all connections."""
        self._background.close(0.0)
        if self._doubtful:
            self._retire_quietly()
        self._client.close()

    def open(self) -> None:
        """Ask what the deployment can do, check the indexes, and create what is missing.

        Raises:
            ConfigurationError: the collections or their indexes are another application's, or
                the user lacks a right.
        """
        schema = Schema(self._client, [self.conversations, self.messages, self.traces])
        hello = self.read(self._client.admin.command, "hello")
        # https://www.mongodb.com/docs/manual/core/transactions/ (not on a standalone server)
        self.has_transactions = "setName" in hello or hello.get("msg") == "isdbgrid"
        self.has_percentiles = hello["maxWireVersion"] >= _WIRE_VERSION_WITH_PERCENTILE
        missing = self.read(schema.missing)
        if missing:
            self._run(Deadline(self._config.migration_timeout), schema.create, missing)

    def ping(self) -> None:
        """Reach the server once."""
        self._client.admin.command("ping")

    def deadline(self) -> Deadline:
        """Return the deadline of a call that begins now."""
        return Deadline(self._config.timeout)

    def unanswered(self) -> StoreUnavailableError:
        """Return the error of a call that waited for another one until its deadline."""
        return StoreUnavailableError(
            f"MongoDB at {self._names} did not answer a call that this one waited for"
        )

    def read(self, work: Work[T], *args: Any) -> T:
        """Do work that changes nothing, again if need be, until the deadline.

        Raises:
            StoreUnavailableError: the server did not answer in time.
        """
        return self._run(self.deadline(), work, *args)

    def read_until(self, deadline: Deadline, work: Work[T], *args: Any) -> T:
        """Do the same for a call that began before."""
        return self._run(deadline, work, *args)

    def write(self, deadline: Deadline, work: Work[T], *args: Any) -> T:
        """Do work that may be repeated, again if need be, until a deadline.

        Args:
            work: takes the session to send commands in, or None on a standalone server, which
                has none that protects from late commands; and `args`.

        Raises:
            StoreUnavailableError: the server did not answer in time.
        """
        if not self.has_transactions:
            return self._run(deadline, work, None, *args)
        sessions: list[Session] = []

        def attempt() -> T:
            if not sessions:
                sessions.append(self._client.start_session(causal_consistency=False))
            return work(sessions[0], *args)

        is_known, is_cancelled = False, False
        try:
            done = self._run(deadline, attempt)
            is_known = True
            return done
        except Exception as error:
            is_known = not deadline.expired and is_known_after(error)
            raise
        except BaseException:
            is_cancelled = True
            raise
        finally:
            for session in sessions:
                if is_known and not was_interrupted(session):
                    session.end_session()
                else:
                    self._doubtful.append(session)
            if is_cancelled and sessions:
                self._background.start()

    def _run(self, deadline: Deadline, work: Work[T], *args: Any) -> T:
        attempts = Attempts(deadline)
        with pymongo.timeout(max(deadline.remaining(), _LEAST_SECONDS)):
            while True:
                try:
                    if self._doubtful:
                        self._retire_doubtful(deadline)
                    return work(*args)
                except PyMongoError as error:
                    if isinstance(error, NetworkTimeout):
                        self._replace_connections()
                    pause = attempts.pause_after(error)
                    if pause is None:
                        reached = self._client.topology_description.has_writable_server()
                        failure = translated(error, self._names, reached=reached)
                        if failure is error:
                            raise
                        raise failure from error
                sleep(pause)

    def _replace_connections(self) -> None:
        """Open other connections from now on, in place of those that are as old as a silent one.

        The driver goes on using them: to it, a command that took too long says nothing about
        the network. And it has no public name for replacing them.
        """
        with suppress(AttributeError):
            for server in list(self._client._topology._servers.values()):
                server.pool.reset_without_pause()

    def transaction(self, session: Session | None, work: Work[T], *args: Any) -> T:
        """Do work in a transaction, or step by step where the deployment has none.

        Args:
            session: that of the call, in which no transaction is open.
            work: takes the session to send commands in, and `args`.
        """
        if session is None:
            return work(None, *args)
        session.start_transaction(SNAPSHOT, DURABLE, PRIMARY)
        try:
            done = work(session, *args)
        except Exception:
            # Not after a cancellation, which must not wait for the server.
            session.abort_transaction()
            raise
        while True:
            try:
                session.commit_transaction()
                return done
            except PyMongoError as error:
                if error.timeout or not error.has_error_label("UnknownTransactionCommitResult"):
                    raise

    def _retire_doubtful(self, deadline: Deadline) -> None:
        """Have the server refuse what calls of unknown outcome sent and it has not received.

        No call goes on before that is done; it also ends their open transactions, which the
        server would keep for a minute, with what they wrote locked.
        """
        if not self._retiring.acquire("", deadline.remaining()):
            raise self.unanswered()
        try:
            while self._doubtful:
                session = self._doubtful[0]
                self._supersede(session)
                self._doubtful.popleft()
                session.end_session()
        finally:
            self._retiring.release("")

    def _supersede(self, session: Session) -> None:
        """Begin a transaction in a session, on each shard, and end it."""
        if session.in_transaction:
            session.abort_transaction()
        session.start_transaction(SNAPSHOT, DURABLE, PRIMARY)
        for collection in (self.conversations, self.messages, self.traces):
            collection.find_one({}, {"_id": 1}, session=session)
        session.abort_transaction()

    def _retire_in_background(self) -> None:
        sleep(_SECONDS_BEFORE_TIDYING_UP)
        self._retire_quietly()

    def _retire_quietly(self) -> None:
        """Retire doubtful sessions, or leave that to the next call."""
        deadline = Deadline(_SECONDS_TO_TIDY_UP)
        try:
            with pymongo.timeout(_SECONDS_TO_TIDY_UP):
                self._retire_doubtful(deadline)
        except NetworkTimeout:
            self._replace_connections()
        except (PyMongoError, JazzmineError):
            pass

    def replace_all(
        self, collection: Collection, documents: Sequence[Document], session: Session | None
    ) -> None:
        """Put documents in the place of those with the same id, one after the other."""
        replacements = [
            ReplaceOne(equal(id=document["id"]), document, upsert=True) for document in documents
        ]
        # In order, because that is the order of their `_id` and so of equal timestamps.
        collection.bulk_write(replacements, ordered=True, session=session)

    def page(
        self,
        collection: Collection,
        listing: Listing,
        owner: str,
        limit: int | None,
        after: str | None,
    ) -> list[Document]:
        """Return a page of what belongs to an owner.

        Raises:
            NotFoundError: `after` does not belong to the owner.
        """
        last = None
        if after is not None:
            query = {**listing.of(owner), **equal(id=after)}
            last = collection.find_one(query, listing.projection)
            if last is None:
                raise NotFoundError(f"after={after!r} is no {listing.member}")
        if limit == 0:
            return []
        return self.found(collection, listing.of(owner, last), listing, limit)

    def found(
        self,
        collection: Collection,
        query: Document,
        listing: Listing | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Document]:
        """Return what a query means."""
        cursor = collection.find(
            query,
            sort=None if listing is None else listing.sort,
            skip=min(offset, _MOST),
            limit=limit if limit is not None and limit < _MOST else 0,
            batch_size=min(limit or DOCUMENTS_A_REPLY, DOCUMENTS_A_REPLY),
        )
        return cursor.to_list()

    def ids(self, collection: Collection, query: Document, session: Any = None) -> list[str]:
        """Return the ids of the documents that match a query, as they are read."""
        cursor = collection.find(
            query, {"_id": 0, "id": 1}, batch_size=IDS_A_REPLY, session=session
        )
        return [document.get("id") or UNKNOWN_ID for document in cursor.to_list()]

    def aggregated(self, collection: Collection, pipeline: list[Any]) -> list[Document]:
        """Return what comes out of a pipeline."""
        cursor = collection.aggregate(pipeline, batchSize=DOCUMENTS_A_REPLY)
        return cursor.to_list()
