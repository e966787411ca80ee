"""The hooks of the long-term memory in a MongoDB database."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from jazzmine._async.clients.mongodb.client import MongoDBClient
from jazzmine._async.clients.mongodb.types import Collection, Session
from jazzmine._async.long_term_memory.backend import ItemBackend
from jazzmine.backends.mongodb import items
from jazzmine.backends.mongodb.documents import Document
from jazzmine.config import MongoDBConfig
from jazzmine.records.item_rows import (
    Cursor,
    ItemChange,
    ItemConflict,
    ItemQuery,
    ItemRow,
    ItemVersion,
    Outcome,
    Renewal,
    Stored,
    is_expected,
)
from jazzmine.records.seen import taken

__all__ = ["MongoDBItemBackend"]

_PATHS_A_COMMAND = 10_000


class MongoDBItemBackend(ItemBackend):
    """Items in a MongoDB database."""

    system_name = "mongodb"

    def __init__(self, config: MongoDBConfig) -> None:
        self._client = MongoDBClient(config, items.INDEXES, items.FIELDS)

    async def open(self) -> None:
        """Check the indexes, and create missing ones."""
        try:
            await self._client.open()
        except BaseException:
            await self._client.close()
            raise

    async def pending(self) -> list[str]:
        """Return what opening the store would create."""
        try:
            return await self._client.pending()
        finally:
            await self._client.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def after_fork(self) -> None:
        """Open other connections in a forked process."""
        self._client.after_fork()

    async def ping(self) -> None:
        """Make one round trip to the server."""
        await self._client.command("ping")

    @property
    def _items(self) -> Collection:
        return self._client.collections[items.ITEMS]

    # Writes

    async def apply(self, changes: Sequence[ItemChange]) -> Sequence[Outcome] | ItemConflict:
        """Make the changes in one transaction, after their revisions were taken."""
        # A viewer's call does not wait for those of others: it is not known whose the items are.
        ending = f"\0{self.viewer}" if self.viewer else ""
        revisions: tuple[int, int] | None = None

        async def attempt(session: Session | None) -> list[Outcome] | ItemConflict:
            nonlocal revisions
            after = 0
            while True:
                # An attempt that is repeated has the same revisions: it finds what was stored.
                is_repeated = revisions is not None
                if revisions is None:
                    revisions = await self._take_revisions(session, len(changes), after)
                work = partial(self._change, changes, *revisions, is_repeated)
                outcomes = await self._client.commit(session, work)
                if not isinstance(outcomes, int):
                    return outcomes
                revisions, after = None, outcomes

        return await self._client.write([change.path + ending for change in changes], attempt)

    async def renew(self, renewals: Sequence[Renewal]) -> int:
        """Set `expires_at` of items in one command."""
        updates = [items.renewed(renewal, self.viewer) for renewal in renewals]

        async def attempt(session: Session | None) -> int:
            result = await self._items.bulk_write(updates, ordered=False, session=session)
            return int(result.matched_count)

        return await self._client.write([], attempt)

    async def restore(self, changes: Sequence[ItemChange]) -> None:
        """Store items as they are, one after another in one command."""
        stored = [change.stored() for change in changes]
        documents = [
            items.document_of(change, *own) for change, own in zip(changes, stored, strict=True)
        ]
        last = items.higher_revisions(max(own.revision for own in stored))
        counters = self._client.collections[items.COUNTERS]

        async def attempt(session: Session | None) -> None:
            await counters.update_one({"_id": "last"}, last, upsert=True, session=session)
            await self._items.bulk_write(items.replaced(documents), session=session)

        await self._client.write([change.path for change in changes], attempt)

    async def rewrite(self, versions: Sequence[ItemVersion]) -> None:
        """Store other forms of items, one after another."""
        for version in versions:
            own = {"id": {"$eq": version.path}, "revision": {"$eq": version.revision}}
            work = partial(self._rewrite, own, items.rewritten(version))
            await self._client.write([version.path], work)

    async def _rewrite(self, own: Document, update: Document, session: Session | None) -> None:
        await self._items.update_one(own, update, session=session)

    async def _take_revisions(
        self, session: Session | None, count: int, after: int
    ) -> tuple[int, int]:
        """Return the first of some revisions that no other call gets, and the server's time.

        All are larger than `after`. They are not taken in the transaction: all transactions would
        wait for one another.
        """
        counters, counter = self._client.collections[items.COUNTERS], None
        # Once, except that the test server returns nothing if another client inserts just then.
        while counter is None:
            counter = await counters.find_one_and_update(
                {"_id": "last"},
                items.next_revisions(count, after),
                upsert=True,
                return_document=True,
                session=session,
            )
        return counter["last"] - count + 1, counter["now"]

    async def _change(
        self,
        changes: Sequence[ItemChange],
        first: int,
        now: int,
        is_repeated: bool,
        session: Session | None,
    ) -> list[Outcome] | ItemConflict | int:
        """Make the changes, or return a revision that an item has: it needs others, larger ones.

        Args:
            changes: what to do.
            first: the revision of the first item that is stored.
            now: the time of the changes.
            is_repeated: whether an attempt before this one may have stored items.
            session: with a transaction, or None on a standalone server.
        """
        stored = await self._find([change.path for change in changes], session)
        for index, change in enumerate(changes):
            document = stored.get(change.path)
            latest = 0 if document is None else document["revision"]
            if latest == first + index and is_repeated:
                continue
            is_stored, is_seen = items.is_live(document, now), items.is_seen(document, self.viewer)
            revision = latest if is_stored and is_seen else None
            if not is_expected(change.expected, revision):
                return ItemConflict(index, revision)
            if is_stored and not is_seen and change.item is not None:
                raise taken("item", change.item.key)
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
        own: Document = {"id": {"$eq": change.path}}
        if stored is not None:
            # Without a transaction another call may have changed it since it was read.
            own["revision"] = {"$eq": stored["revision"]}
        if change.item is None:
            if stored is None or not items.is_seen(stored, self.viewer):
                return False
            result = await collection.delete_one(own, session=session)
            return is_stored if result.deleted_count else None
        if stored is not None and stored["revision"] == revision:
            return Stored(revision, stored["created_at"], stored["updated_at"])
        created_at = stored["created_at"] if stored is not None and is_stored else now
        document = items.document_of(change, revision, created_at, now)
        if stored is None:
            await collection.insert_one(document, session=session)
        elif not (await collection.replace_one(own, document, session=session)).matched_count:
            return None
        return Stored(revision, created_at, now)

    async def _find(self, paths: Sequence[str], session: Session | None) -> dict[str, Document]:
        """Return what decides about changes of items, by their paths."""
        names = ("id", "revision", "created_at", "updated_at", "expires_at", "user_id")
        fields = dict.fromkeys(names, 1)
        documents: list[Document] = await self._items.find(
            {"id": {"$in": list(paths)}}, fields, session=session
        ).to_list()
        return {document["id"]: document for document in documents}

    # Reads

    async def get_items(self, paths: Sequence[str]) -> Sequence[ItemRow]:
        """Return the rows at some paths."""
        rows: list[ItemRow] = []
        for begin in range(0, len(paths), _PATHS_A_COMMAND):
            part = list(paths[begin : begin + _PATHS_A_COMMAND])
            wanted = {"id": {"$in": part}, **items.seen(self.viewer)}
            rows += await self._rows({"$and": [wanted, items.live()]}, ItemQuery())
        return rows

    async def list_items(
        self, query: ItemQuery, limit: int | None, after: Cursor | None
    ) -> Sequence[ItemRow]:
        """Return a page of items."""
        return await self._rows(items.page_query(query, after), query, limit)

    async def _rows(
        self, condition: Document, query: ItemQuery, limit: int | None = None
    ) -> list[ItemRow]:
        async def find() -> list[Document]:
            # To the server, a limit of 0 is none.
            documents: list[Document] = await self._items.find(
                condition,
                items.projection(query),
                sort=items.sort_of(query),
                limit=0 if limit is None else min(limit, 2**31 - 1),
            ).to_list()
            return documents

        return [items.row_of(document, query.reads) for document in await self._client.read(find)]

    async def list_namespaces(
        self, prefix: str, first: str, limit: int, user_id: str | None = None
    ) -> Sequence[str]:
        """Return namespaces that have items."""
        pipeline = items.namespaces_pipeline(prefix, first, limit, user_id)

        async def find() -> list[Document]:
            cursor: Any = await self._items.aggregate(pipeline)
            documents: list[Document] = await cursor.to_list()
            return documents

        return [document["_id"] for document in await self._client.read(find)]

    # Erasure and retention

    async def erase(self, user_id: str, limit: int) -> int:
        """Delete some of a user's items."""
        return await self._delete_some({"user_id": {"$eq": user_id}}, limit)

    async def prune(self, limit: int, user_id: str | None = None) -> int:
        """Delete some of the expired items."""
        return await self._delete_some(
            {**items.expired(), **items.seen(user_id)}, limit, [("expires_at", 1)]
        )

    async def _delete_some(
        self, condition: Document, limit: int, sort: list[tuple[str, int]] | None = None
    ) -> int:
        async def attempt(session: Session | None) -> int:
            documents: list[Document] = await self._items.find(
                condition, {"_id": 1}, sort=sort, limit=limit, session=session
            ).to_list()
            if not documents:
                return 0
            chosen = {"_id": {"$in": [document["_id"] for document in documents]}}
            result = await self._items.delete_many({"$and": [chosen, condition]}, session=session)
            return int(result.deleted_count)

        return await self._client.transaction([], attempt)
