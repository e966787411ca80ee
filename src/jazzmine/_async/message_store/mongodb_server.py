"""The way to a MongoDB server: every call within its deadline, again where a connection broke."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, TypeVar

import pymongo
from pymongo import IndexModel, ReplaceOne
from pymongo.driver_info import DriverInfo
from pymongo.errors import ConfigurationError, InvalidURI, PyMongoError

from jazzmine._compat.mongo_aio import Client, Collection, Session, Work, sleep
from jazzmine._compat.mongo_driver import (
    DURABLE,
    LENIENT,
    MAJORITY,
    PRIMARY,
    SNAPSHOT,
    Attempts,
    invalid_address,
    may_be_open_after,
    server_names,
    translated,
)
from jazzmine._compat.upkeep_aio import Chores
from jazzmine.config import MongoDBConfig
from jazzmine.errors import NotFoundError, StoreUnavailableError
from jazzmine.layouts.mongodb.documents import Document
from jazzmine.layouts.mongodb.indexes import CONVERSATIONS, INDEXES, MESSAGES, TRACES
from jazzmine.layouts.mongodb.queries import Listing, equal
from jazzmine.records.repair import UNKNOWN_ID

__all__ = ["MongoDBServer"]

T = TypeVar("T")

# How many documents a reply brings at the most; the server also ends one at 16 MiB.
DOCUMENTS_A_REPLY = 1_000
IDS_A_REPLY = 100_000

_SECONDS_TO_MAKE_WAY = 0.002
_SECONDS_TO_TIDY_UP = 1.0
_LEAST_SECONDS = 0.001  # to the driver, 0 is no deadline at all

# The server refuses a sum of skip and limit beyond 64 bits.
_MOST = 2**32

# https://www.mongodb.com/docs/manual/reference/operator/aggregation/percentile/ (MongoDB 7.0)
_WIRE_VERSION_WITH_PERCENTILE = 21


class MongoDBServer:
    """A client of its own, and the three collections."""

    conversations: Collection
    messages: Collection
    traces: Collection

    def __init__(self, config: MongoDBConfig) -> None:
        self._config = config
        self._names = server_names(config.uri)
        self._inherited: list[Client] = []
        self._left: deque[Session] = deque()
        self._chores = Chores()
        self.has_transactions = False
        self.has_percentiles = False
        self._client = self._connect()

    def _connect(self) -> Client:
        client = None
        with suppress(InvalidURI, ConfigurationError, ValueError, TypeError):
            client = Client(self._config.uri, connect=False, driver=DriverInfo("jazzmine"))
        if client is None:
            raise invalid_address()
        codec = client.codec_options.with_options(**LENIENT)
        database = client.get_database(
            self._config.db, codec, PRIMARY, write_concern=DURABLE, read_concern=MAJORITY
        )
        self.conversations = database[CONVERSATIONS]
        self.messages = database[MESSAGES]
        self.traces = database[TRACES]
        return client

    def move(self) -> None:
        """Leave the connections to the process that this one was forked from."""
        # It is kept, because a client that is collected closes what it shares with the parent's.
        self._inherited.append(self._client)
        self._client = self._connect()
        self._left = deque()
        self._chores = Chores()

    async def close(self) -> None:
        """Close all connections."""
        await self._chores.close(_SECONDS_TO_TIDY_UP)
        if self._left:
            await self._end_left()
        await self._client.close()

    async def open(self) -> None:
        """Learn what the deployment can do, and create what is missing."""
        await self.run(self._open)

    async def _open(self) -> None:
        hello = await self._client.admin.command("hello")
        # https://www.mongodb.com/docs/manual/core/transactions/ (not on a standalone server)
        self.has_transactions = "setName" in hello or hello.get("msg") == "isdbgrid"
        self.has_percentiles = hello["maxWireVersion"] >= _WIRE_VERSION_WITH_PERCENTILE
        for collection in (self.conversations, self.messages, self.traces):
            await self._create_missing(collection)

    async def _create_missing(self, collection: Collection) -> None:
        # Asking first needs no right to create, and takes those of jazzmine 0.1 for what they
        # are: the option `background`, which they carry, has meant nothing since MongoDB 4.2.
        there = await (await collection.list_indexes()).to_list()
        known = {(tuple(index["key"].items()), index.get("unique", False)) for index in there}
        missing = [
            IndexModel(list(index.keys), **index.options)
            for index in INDEXES[collection.name]
            if (index.keys, index.unique) not in known
        ]
        if missing:
            await collection.create_indexes(missing)

    async def ping(self) -> None:
        """Reach the server once."""
        await self._client.admin.command("ping")

    def deadline(self) -> float:
        """Return the deadline of a call that begins now."""
        return monotonic() + self._config.timeout

    async def run(self, work: Work[T], *args: Any) -> T:
        """Do work that may be repeated, again if need be, until the deadline.

        Raises:
            StoreUnavailableError: the server was not there for it.
        """
        return await self.run_until(self.deadline(), work, *args)

    async def run_until(self, deadline: float, work: Work[T], *args: Any) -> T:
        """Do the same for a call that began before."""
        attempts = Attempts(deadline)
        with pymongo.timeout(max(deadline - monotonic(), _LEAST_SECONDS)):
            while True:
                try:
                    if self._left:
                        await self._end_left_transactions()
                    return await work(*args)
                except PyMongoError as error:
                    pause = attempts.pause_after(error)
                    if pause is None:
                        reached = self._client.topology_description.has_writable_server()
                        failure = translated(error, self._names, reached=reached)
                        if failure is error:
                            raise
                        raise failure from error
                await sleep(pause)

    async def wait_until(self, deadline: float, ready: Callable[..., bool], *args: Any) -> None:
        """Wait for another call of this store to make way.

        Raises:
            StoreUnavailableError: it did not before the deadline.
        """
        while not ready(*args):
            if monotonic() > deadline:
                raise StoreUnavailableError(
                    f"MongoDB at {self._names} did not answer a call that this one waits for"
                )
            await sleep(_SECONDS_TO_MAKE_WAY)

    async def atomically(self, work: Work[T], *args: Any) -> T:
        """Do work in a transaction, or step by step where the deployment has none.

        Args:
            work: takes the session to work in, and `args`.
        """
        if not self.has_transactions:
            return await work(None, *args)

        async def attempt(session: Session) -> T:
            return await work(session, *args)

        session = self._client.start_session()
        try:
            # Repeats the transaction, or its commit alone, as the error's labels allow.
            done: T = await session.with_transaction(attempt, SNAPSHOT, DURABLE, PRIMARY)
        except BaseException as error:
            if may_be_open_after(error):
                self._left.append(session)
                if not isinstance(error, Exception):
                    await self._chores.run(self._end_left, wait=False)
            else:
                await session.end_session()
            raise
        await session.end_session()
        return done

    async def _end_left(self) -> None:
        """End what a call that was cancelled left open, or leave it to the next call."""
        with suppress(PyMongoError), pymongo.timeout(_SECONDS_TO_TIDY_UP):
            await self._end_left_transactions()

    async def _end_left_transactions(self) -> None:
        """End transactions of which nobody knows whether the server holds them open.

        It would for a minute, and what they wrote would be locked for everybody. The driver's
        own abort is not enough: it is not sent after the deadline, and it may overtake the
        command that begins the transaction.
        """
        while self._left:
            session = self._left.popleft()
            try:
                # With a session's next transaction the server ends the one before it.
                # https://www.mongodb.com/docs/manual/reference/server-sessions/
                async with await session.start_transaction():
                    await self.conversations.find_one({}, {"_id": 1}, session=session)
            except BaseException as error:
                if may_be_open_after(error):
                    self._left.append(session)
                    raise
            await session.end_session()

    async def replace_all(
        self, collection: Collection, documents: Sequence[Document], session: Session | None
    ) -> None:
        """Put documents in the place of those with the same id, one after the other."""
        replacements = [
            ReplaceOne(equal(id=document["id"]), document, upsert=True) for document in documents
        ]
        # In order, because that is the order of their `_id` and so of equal timestamps.
        await collection.bulk_write(replacements, ordered=True, session=session)

    async def page(
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
            last = await collection.find_one(query, listing.projection)
            if last is None:
                raise NotFoundError(f"after={after!r} is no {listing.member}")
        if limit == 0:
            return []
        return await self.found(collection, listing.of(owner, last), listing, limit)

    async def found(
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
        return await cursor.to_list()

    async def ids(self, collection: Collection, query: Document, session: Any = None) -> list[str]:
        """Return the ids of the documents that match a query, as they are read."""
        cursor = collection.find(
            query, {"_id": 0, "id": 1}, batch_size=IDS_A_REPLY, session=session
        )
        return [document.get("id") or UNKNOWN_ID for document in await cursor.to_list()]

    async def aggregated(self, collection: Collection, pipeline: list[Any]) -> list[Document]:
        """Return what comes out of a pipeline."""
        cursor = await collection.aggregate(pipeline, batchSize=DOCUMENTS_A_REPLY)
        return await cursor.to_list()
