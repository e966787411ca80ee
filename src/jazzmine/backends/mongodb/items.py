"""The items of a long-term memory in MongoDB: documents, indexes, queries.

A document has the fields of its item, and in place of namespace and key its path as `id`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bson import encode
from pymongo import ReplaceOne, UpdateOne

from jazzmine.backends.mongodb.documents import Document, escaped, unescaped
from jazzmine.backends.mongodb.indexes import Index
from jazzmine.backends.mongodb.trace_filters import metadata_query
from jazzmine.errors import RecordTooLargeError
from jazzmine.records.item_paths import end_of
from jazzmine.records.item_rows import (
    Cursor,
    ItemChange,
    ItemQuery,
    ItemRow,
    ItemVersion,
    Reads,
    Renewal,
)

__all__ = [
    "COUNTERS",
    "FIELDS",
    "INDEXES",
    "ITEMS",
    "document_of",
    "expired",
    "higher_revisions",
    "is_live",
    "live",
    "namespaces_pipeline",
    "next_revisions",
    "page_query",
    "projection",
    "renewed",
    "replaced",
    "rewritten",
    "row_of",
    "sort_of",
]

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
FIELDS = [f"{ITEMS}.{name}" for name in (*_NAMES, "vector")]

# https://www.mongodb.com/docs/manual/reference/limits/#mongodb-limit-BSON-Document-Size
_MAX_BYTES = 16 * 2**20
_BYTES_OF_ID = 17  # the server adds `_id`, an ObjectId

_NOW = {"$toLong": "$$NOW"}


def next_revisions(count: int, after: int) -> list[Document]:
    """Return the update that takes revisions from the counter, and notes the server's time in ms.

    Args:
        count: the number of revisions.
        after: the revision of an item; the counter may be lower if items were copied without it.
    """
    last = {"$add": [{"$max": ["$last", after]}, count]}
    return [{"$set": {"last": last, "now": _NOW}}]


def higher_revisions(last: int) -> Document:
    """Return the update that raises the counter above a revision."""
    return {"$max": {"last": last}}


def document_of(change: ItemChange, revision: int, created_at: int, updated_at: int) -> Document:
    """Return the document of an item, without the fields that are None.

    Raises:
        RecordTooLargeError: it is larger than the server accepts.
    """
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
    document = {name: value for name, value in fields.items() if value is not None}
    size = len(encode(document)) + _BYTES_OF_ID
    if size > _MAX_BYTES:
        raise RecordTooLargeError(
            f"the item {item.key!r} of {item.namespace!r} takes {size} bytes as a MongoDB document;"
            f" {_MAX_BYTES} is the most"
        )
    return document


def renewed(renewal: Renewal) -> UpdateOne:
    """Return the update of an item that sets its expiry."""
    own = {"id": {"$eq": renewal.path}, "revision": {"$eq": renewal.revision}}
    if renewal.expires_at is None:
        return UpdateOne({"$and": [own, live()]}, {"$unset": {"expires_at": ""}})
    return UpdateOne({"$and": [own, live()]}, {"$set": {"expires_at": renewal.expires_at}})


def replaced(documents: Sequence[Document]) -> list[ReplaceOne[Document]]:
    """Return the writes that store documents in place of those with their ids."""
    return [
        ReplaceOne({"id": {"$eq": document["id"]}}, document, upsert=True) for document in documents
    ]


def rewritten(version: ItemVersion) -> Document:
    """Return the update that stores another form of an item."""
    parts = {name: part for name, part in version.parts.items() if part is not None}
    if "value" in parts:
        parts["value"] = escaped(parts["value"])
    return {"$set": parts}


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
        is_later = {"$expr": {"$gt": ["$expires_at", _NOW]}}
    return {"$or": [{"expires_at": {"$exists": False}}, is_later]}


def expired(user_id: str | None) -> Document:
    """Return the query for the items that have expired; of a user, if one is given."""
    expired = {"expires_at": {"$exists": True}, "$expr": {"$lte": ["$expires_at", _NOW]}}
    return {**expired, **_of_user(user_id)}


def _of_user(user_id: str | None) -> Document:
    return {} if user_id is None else {"user_id": {"$eq": user_id}}


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


def sort_of(query: ItemQuery) -> list[tuple[str, int]]:
    """Return the order of a page."""
    return [("id", 1)] if query.order == "key" else [("updated_at", -1), ("revision", -1)]


def projection(query: ItemQuery) -> dict[str, int]:
    """Return the projection to the fields that are read."""
    left_out = {"items": "vector", "values": "vector data", "vectors": "value data", "all": ""}
    return dict.fromkeys(left_out[query.reads].split(), 0)


def namespaces_pipeline(prefix: str, first: str, limit: int, user_id: str | None) -> list[Any]:
    """Return the pipeline for the namespaces that have items, from `first` on."""
    bounds = {"$gte": first, "$lt": end_of(prefix)} if prefix else {"$gte": first}
    separator = {"$indexOfBytes": ["$id", "\x01\x01"]}
    namespace = {"$substrBytes": ["$id", 0, {"$add": [separator, 1]}]}
    return [
        {"$match": {"$and": [{"id": bounds, **_of_user(user_id)}, live()]}},
        {"$group": {"_id": namespace}},
        {"$sort": {"_id": 1}},
        {"$limit": limit},
    ]
