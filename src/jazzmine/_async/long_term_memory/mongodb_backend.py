"""The hooks of the long-term memory in a MongoDB database."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pymongo import ReplaceOne, UpdateOne

from jazzmine._async.clients.mongodb.client import MongoDBClient
from jazzmine._async.clients.mongodb.types import Collection, Session
from jazzmine._async.long_term_memory.backend import ItemBackend
from jazzmine._compat.concurrency import AsyncWork as Work
from jazzmine.backends.mongodb import items
from jazzmine.backends.mongodb.documents import Document, escaped
from jazzmine.backends.mongodb.queries import among, equal, owned_by
from jazzmine.config import MongoDBConfig
from jazzmine.errors import IntegrityError
from jazzmine.records.item_rows import (
    Cursor,
    ItemChange,
    ItemConflict,
    ItemQuery,
    ItemRow,
    ItemVersion,
    Outcome,
    Reads,
    Renewal,
    Stored,
    is_expected,
)

# The fields that are not read.
_LEFT_OUT: dict[Reads, list[str]] = {
    "items": ["vector"],
    "values": ["vector", "data"],
    "vectors": ["value", "data"],
    "all": [],
}


class MongoDBItemBackend(ItemBackend):
    """Items in a MongoDB database."""

    system_name = "mongodb"

    def __init__(self, config: MongoDBConfig) -> None:
        self.client: MongoDBClient = MongoDBClient(config, items.INDEXES)

    @property
    def _items(self) -> Collection:
        return self.client.collections[items.ITEMS]

    # Writes

    async def apply(self, changes: Sequence[ItemChange]) -> Sequence[Outcome] | ItemConflict:
        after = 0
        while True:
            first, now = await self._take_revisions(len(changes), after)
            work = partial(self._change, changes, first, now)
            try:
                if len(changes) == 1:
                    outcomes = await self.client.run(partial(work, None))
                else:
                    outcomes = await self.client.transaction([c.path for c in changes], work)
            except IntegrityError:
                continue  # another call has inserted the item
            if not isinstance(outcomes, int):
                return outcomes
            after = outcomes

    async def renew(self, renewals: Sequence[Renewal]) -> int:
        updates = [
            UpdateOne(
                {"$and": [_version(path, revision), items.live()]},
                {"$unset": {"expires_at": ""}} if at is None else {"$set": {"expires_at": at}},
            )
            for path, revision, at in renewals
        ]
        result = await self.client.run(lambda: self._items.bulk_write(updates, ordered=False))
        return int(result.matched_count)

    async def restore(self, changes: Sequence[ItemChange]) -> None:
        documents = [items.document_of(change, *change.stored()) for change in changes]
        replacements = [
            ReplaceOne({"id": {"$eq": document["id"]}}, document, upsert=True)
            for document in documents
        ]
        last = {"$max": {"last": max(document["revision"] for document in documents)}}
        counters = self.client.collections[items.COUNTERS]
        await self.client.run(lambda: counters.update_one({"_id": "last"}, last, upsert=True))
        await self.client.run(lambda: self._items.bulk_write(replacements))

    async def rewrite(self, versions: Sequence[ItemVersion]) -> None:
        for version in versions:
            own = _version(version.path, version.revision)
            parts = {name: part for name, part in version.parts.items() if part is not None}
            if "value" in parts:
                parts["value"] = escaped(parts["value"])
            await self.client.run(partial(self._items.update_one, own, {"$set": parts}))

    async def move_user(self, from_id: str, to_id: str) -> int:
        own, update = equal(user_id=from_id), {"$set": {"user_id": to_id}}
        result = await self.client.run(lambda: self._items.update_many(own, update))
        return int(result.matched_count)

    async def _take_revisions(self, count: int, after: int) -> tuple[int, int]:
        """Return the first of some revisions that no other call gets, and the server's time.

        All are larger than `after`. They are not taken in a transaction: all transactions would
        wait for one another.
        """
        counters = self.client.collections[items.COUNTERS]
        # The counter may be lower than `after` if items were copied without it.
        last = {"$add": [{"$max": ["$last", after]}, count]}
        own, update = {"_id": "last"}, [{"$set": {"last": last, "now": items.NOW}}]
        take: Work[Any] = partial(
            counters.find_one_and_update, own, update, upsert=True, return_document=True
        )
        counter = await self.client.run(take)
        return counter["last"] - count + 1, counter["now"]

    async def _change(
        self, changes: Sequence[ItemChange], first: int, now: int, session: Session | None
    ) -> list[Outcome] | ItemConflict | int:
        """Make the changes, or return a revision that an item has: it needs others, larger ones.

        Args:
            changes: what to do.
            first: the revision of the first item that is stored.
            now: the time of the changes.
            session: with a transaction, or None.
        """
        stored = await self._find([change.path for change in changes], session)
        for index, change in enumerate(changes):
            document = stored.get(change.path)
            latest = 0 if document is None else document["revision"]
            revision = latest if items.is_live(document, now) else None
            if not is_expected(change.expected, revision):
                return ItemConflict(index, revision)
            if latest >= first + index:
                return int(latest)
        outcomes: list[Outcome] = []
        for index, change in enumerate(changes):
            document = stored.get(change.path)
            outcome = await self._change_one(session, change, document, first + index, now)
            if outcome is None:
                return 0  # another call has changed it since it was read
            outcomes.append(outcome)
        return outcomes

    async def _change_one(
        self,
        session: Session | None,
        change: ItemChange,
        stored: Document | None,
        revision: int,
        now: int,
    ) -> Outcome | None:
        collection, is_stored = self._items, items.is_live(stored, now)
        # Without a transaction another call may have changed it since it was read.
        own = {} if stored is None else _version(change.path, stored["revision"])
        if change.item is None:
            if stored is None:
                return False
            result = await collection.delete_one(own, session=session)
            return is_stored if result.deleted_count else None
        created_at = stored["created_at"] if stored is not None and is_stored else now
        document = items.document_of(change, revision, created_at, now)
        if stored is None:
            await collection.insert_one(document, session=session)
        elif not (await collection.replace_one(own, document, session=session)).matched_count:
            return None
        return Stored(revision, created_at, now)

    async def _find(self, paths: Sequence[str], session: Session | None) -> dict[str, Document]:
        """Return what decides about changes of items, by their paths."""
        fields = dict.fromkeys(("id", "revision", "created_at", "expires_at"), 1)
        found = self._items.find(among("id", paths), fields, session=session)
        documents: list[Document] = await found.to_list()
        return {document["id"]: document for document in documents}

    # Reads

    async def get_items(self, paths: Sequence[str]) -> Sequence[ItemRow]:
        wanted = {"$and": [among("id", paths), items.live()]}
        return await self._rows(wanted, ItemQuery())

    async def list_items(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        return await self._rows(items.page_query(query, after), query, limit)

    async def _rows(
        self, condition: Document, query: ItemQuery, limit: int | None = None
    ) -> list[ItemRow]:
        cursor = self._items.find(
            condition,
            dict.fromkeys(_LEFT_OUT[query.reads], 0),
            sort=[("id", 1)] if query.order == "key" else [("updated_at", -1), ("revision", -1)],
            limit=0 if limit is None else min(limit, 2**31 - 1),  # to the server, 0 is no limit
        )
        documents = await self.client.run(cursor.to_list)
        return [items.row_of(document, query.reads) for document in documents]

    async def list_namespaces(
        self, prefix: str, first: str, limit: int, user_id: str | None = None
    ) -> Sequence[str]:
        pipeline = items.namespaces_pipeline(prefix, first, limit, user_id)

        async def find() -> list[Document]:
            cursor: Any = await self._items.aggregate(pipeline)
            documents: list[Document] = await cursor.to_list()
            return documents

        return [document["_id"] for document in await self.client.run(find)]

    # Erasure and retention

    async def erase(self, user_id: str, limit: int) -> int:
        return await self._delete_some(equal(user_id=user_id), limit)

    async def prune(self, limit: int, user_id: str | None = None) -> int:
        expired = {"expires_at": {"$exists": True}, "$expr": {"$lte": ["$expires_at", items.NOW]}}
        condition = {**expired, **owned_by(user_id)}
        return await self._delete_some(condition, limit, [("expires_at", 1)])

    async def _delete_some(
        self, condition: Document, limit: int, sort: list[tuple[str, int]] | None = None
    ) -> int:
        async def delete() -> int:
            documents: list[Document] = await self._items.find(
                condition, {"_id": 1}, sort=sort, limit=limit
            ).to_list()
            chosen = {"_id": {"$in": [document["_id"] for document in documents]}}
            result = await self._items.delete_many({"$and": [chosen, condition]})
            return int(result.deleted_count)

        return await self.client.run(delete)


def _version(path: str, revision: int) -> Document:
    """Return the query for an item that has a revision."""
    return {"id": {"$eq": path}, "revision": {"$eq": revision}}
