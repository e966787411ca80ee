"""The commands on a collection of MongoDB, each sent once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bson import encode
from bson.raw_bson import RawBSONDocument
from pymongo import ReplaceOne
from pymongo.errors import BulkWriteError, DuplicateKeyError

from jazzmine._async.message_store.mongodb_types import Collection, Session
from jazzmine.backends.mongodb.documents import Document
from jazzmine.backends.mongodb.driver import is_duplicate
from jazzmine.backends.mongodb.queries import Listing, equal
from jazzmine.errors import NotFoundError
from jazzmine.records.repair import UNKNOWN_ID

__all__ = ["Commands"]

# The maximum number of documents in a reply; the server also limits a reply to 16 MiB.
DOCUMENTS_A_REPLY = 1_000
IDS_A_REPLY = 100_000

# The server refuses a sum of skip and limit beyond 64 bits.
_MOST = 2**32


class Commands:
    """Reads and writes the documents of a collection; a client repeats what fails."""

    async def replace_all(
        self,
        collection: Collection,
        documents: Sequence[Document],
        session: Session | None,
        *keys: str,
    ) -> None:
        """Replace the documents with the same ids and `keys`, or insert them, one by one."""
        names = ("id", *keys)
        replacements = [
            ReplaceOne(equal(**{name: document[name] for name in names}), document, upsert=True)
            for document in documents
        ]
        # Ordered, because `_id` orders messages with equal timestamps.
        await collection.bulk_write(replacements, ordered=True, session=session)

    async def insert_all(
        self, collection: Collection, documents: Sequence[Document], session: Session | None
    ) -> None:
        """Insert documents; the server sets their `_id`s, in their order.

        Raises:
            DuplicateKeyError: a document with one of the ids is stored already.
        """
        # The driver adds no `_id` to a raw document.
        raw = [RawBSONDocument(encode(document)) for document in documents]
        if len(raw) == 1:
            await collection.insert_one(raw[0], session=session)
            return
        try:
            await collection.insert_many(raw, session=session)
        except BulkWriteError as error:
            if not is_duplicate(error):
                raise
            first = error.details["writeErrors"][0]
            raise DuplicateKeyError(first["errmsg"], first["code"], first) from error

    async def find_page(
        self,
        collection: Collection,
        listing: Listing,
        owner: str,
        limit: int | None,
        after: str | None,
    ) -> list[Document]:
        """Return a page of the documents of an owner.

        Raises:
            NotFoundError: `after` does not belong to the owner.
        """
        last = None
        if after is not None:
            last = await self.find_cursor(collection, listing, owner, after)
        if limit == 0:
            return []
        return await self.find(collection, listing.of(owner, last), listing, limit)

    async def find_cursor(
        self,
        collection: Collection,
        listing: Listing,
        owner: str,
        after: str,
        session: Session | None = None,
    ) -> Document:
        """Return the cursor of a document of an owner.

        Raises:
            NotFoundError: `after` does not belong to the owner.
        """
        query = {**listing.of(owner), **equal(id=after)}
        last = await collection.find_one(query, listing.projection, session=session)
        if last is None:
            raise NotFoundError(f"after={after!r} is no {listing.member}")
        return last

    async def find(
        self,
        collection: Collection,
        query: Document,
        listing: Listing | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Document]:
        """Return the documents that match a query."""
        cursor = collection.find(
            query,
            sort=None if listing is None else listing.sort,
            skip=min(offset, _MOST),
            limit=limit if limit is not None and limit < _MOST else 0,
            batch_size=min(limit or DOCUMENTS_A_REPLY, DOCUMENTS_A_REPLY),
        )
        return await cursor.to_list()

    async def find_ids(
        self, collection: Collection, query: Document, session: Any = None
    ) -> list[str]:
        """Return the ids of the documents that match a query, as they are read."""
        cursor = collection.find(
            query, {"_id": 0, "id": 1}, batch_size=IDS_A_REPLY, session=session
        )
        return [document.get("id") or UNKNOWN_ID for document in await cursor.to_list()]

    async def aggregate(self, collection: Collection, pipeline: list[Any]) -> list[Document]:
        """Run an aggregation pipeline, and return its documents."""
        cursor = await collection.aggregate(pipeline, batchSize=DOCUMENTS_A_REPLY)
        return await cursor.to_list()
