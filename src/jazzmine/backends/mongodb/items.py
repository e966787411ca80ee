"""The items of a long-term memory in MongoDB: documents, indexes, queries.

A document has the fields of its item, and in place of namespace and key its path as `id`.
"""

from __future__ import annotations

from typing import Any

from jazzmine.backends.mongodb.documents import Document, escaped, unescaped
from jazzmine.backends.mongodb.indexes import Index
from jazzmine.backends.mongodb.queries import owned_by
from jazzmine.backends.mongodb.trace_filters import metadata_query
from jazzmine.records.item_paths import end_of
from jazzmine.records.item_rows import Cursor, ItemChange, ItemQuery, ItemRow, Reads

ITEMS = "memory_items"
COUNTERS = "memory_item_revisions"

INDEXES: dict[str, tuple[Index, ...]] = {
    COUNTERS: (),
    ITEMS: (
        Index((("id", 1),), unique=True),
        Index((("updated_at", -1), ("revision", -1))),
        Index((("user_id", 1), ("id", 1)), sparse=True),
        Index((("source_message_id", 1), ("id", 1)), sparse=True),
        Index((("expires_at", 1),), sparse=True),
    ),
}
_NAMES = (
    "id",
    "value",
    "data",
    "user_id",
    "source_message_id",
    "created_at",
    "updated_at",
    "expires_at",
    "revision",
)

NOW = {"$toLong": "$$NOW"}


def document_of(change: ItemChange, revision: int, created_at: int, updated_at: int) -> Document:
    """Return the document of an item, without the fields that are None."""
    item = change.item
    assert item is not None
    fields = {
        "id": change.path,
        "value": escaped(item.value),
        "data": item.data,
        "user_id": item.user_id,
        "source_message_id": item.source_message_id,
        "created_at": created_at,
        "updated_at": updated_at,
        "expires_at": item.expires_at,
        "revision": revision,
        "vector": change.vector,
    }
    return {name: value for name, value in fields.items() if value is not None}


def row_of(document: Document, reads: Reads = "items") -> ItemRow:
    """Return the row of a document that was read with a query's projection."""
    row = [document.get(name) for name in _NAMES]
    row[1] = unescaped(document.get("value", {}))
    vector = document.get("vector")
    if reads == "vectors":
        row[2] = vector
    return [*row, vector] if reads == "all" else row


def live(at: int | None = None) -> Document:
    """Return the query for the items that have not expired at a time, by default the server's."""
    is_later: Document = {"expires_at": {"$gt": at}}
    if at is None:
        is_later = {"$expr": {"$gt": ["$expires_at", NOW]}}
    return {"$or": [{"expires_at": {"$exists": False}}, is_later]}


def is_live(document: Document | None, now: int) -> bool:
    """Return whether there is an item that has not expired."""
    return document is not None and document.get("expires_at", now + 1) > now


def page_query(query: ItemQuery, after: Cursor | None) -> Document:
    """Return the query for the items of a page."""
    conditions: list[Document] = [live(query.at)]
    if query.prefix:
        conditions.append({"id": {"$gte": query.prefix, "$lt": end_of(query.prefix)}})
    for name in ("user_id", "source_message_id"):
        if (wanted := getattr(query, name)) is not None:
            conditions.append({name: {"$eq": wanted}})
    if query.where:
        conditions.append(metadata_query(query.where, "value"))
    if query.reads == "vectors":
        conditions.append({"vector": {"$exists": True}})
    if after is not None and query.order == "key":
        conditions.append({"id": {"$gt": after.path}})
    elif after is not None:
        same_time = {"updated_at": after.updated_at, "revision": {"$lt": after.revision}}
        conditions.append({"$or": [{"updated_at": {"$lt": after.updated_at}}, same_time]})
    return {"$and": conditions}


def namespaces_pipeline(prefix: str, first: str, limit: int, user_id: str | None) -> list[Any]:
    """Return the pipeline for the namespaces that have items, from `first` on."""
    bounds = {"$gte": first, "$lt": end_of(prefix)} if prefix else {"$gte": first}
    separator = {"$indexOfBytes": ["$id", "\x01\x01"]}
    namespace = {"$substrBytes": ["$id", 0, {"$add": [separator, 1]}]}
    return [
        {"$match": {"$and": [{"id": bounds, **owned_by(user_id)}, live()]}},
        {"$group": {"_id": namespace}},
        {"$sort": {"_id": 1}},
        {"$limit": limit},
    ]
