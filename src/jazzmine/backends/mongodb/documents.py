"""Convert records to documents, and documents to rows.

A document has every field of its record under the field's name, with two exceptions: `is_flagged`
is stored only if it is true, so its sparse index stays small, and in free-form data a name that
begins with a dollar gets a prefix. A conversation or a message may have a field `touched`, and a
message has the fields of the search index.

The server sets `_id`: an upsert that inserts creates an ObjectId, which begins with the time in
seconds and a counter, and no update changes it. So `_id` is the order in which documents were
first stored.

https://www.mongodb.com/docs/manual/reference/bson-types/#objectid
https://www.mongodb.com/docs/manual/reference/method/db.collection.replaceOne/#upsert
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias
from uuid import UUID

from jazzmine.records.base import Snapshot
from jazzmine.records.conversation_log import forked_id
from jazzmine.records.messages import Message
from jazzmine.records.rows import Row
from jazzmine.search.analyser import Analyser, terms_of

Document: TypeAlias = dict[str, Any]

# A transaction that depends on this document changes the field: the server aborts one of two
# transactions that write to one document.
# https://www.mongodb.com/docs/manual/core/transactions-production-consideration/
TOUCHED = "touched"

# The entry of a message in the search index, if the store has one, its words and stems, and the
# language of the index.
_SEARCHED = ("search_entry", "search_terms", "search_language")
# The fields that are no fields of records. Version 1.2 left `log_lock` in conversations.
_ADDED = ("_id", TOUCHED, "log_lock", *_SEARCHED)
HIDDEN = dict.fromkeys(_SEARCHED, 0)
"""The projection without what only searches read."""

# Names that begin with a dollar are restricted (and `$ref` makes the driver build a DBRef),
# so the full-width dollar is put before them, and before names that begin with it.
# https://www.mongodb.com/docs/manual/core/dot-dollar-considerations/
_PREFIX = "＄"
_MARKED = ("$", _PREFIX)


# Records to documents


def document_of(snapshot: Snapshot[Any], analyser: Analyser | None = None) -> Document:
    """Return the document of a record.

    Args:
        snapshot: the record.
        analyser: the analyser of the search index; None for a record that is not in one.
    """
    record = snapshot.record
    document: Document = record.__pydantic_serializer__.to_python(record, mode="json")
    if "message_id" in document:
        document = escaped(document)
    elif document["metadata"]:
        document["metadata"] = escaped(document["metadata"])
    if document.get("is_flagged") is False:
        del document["is_flagged"]
    if analyser is not None:
        document.update(searched_fields(document["original_content"], analyser))
    return document


def message_documents(
    messages: Iterable[Snapshot[Message]], analyser: Analyser | None
) -> list[Document]:
    """Return the documents of messages."""
    return [document_of(snapshot, analyser) for snapshot in messages]


def searched_fields(text: Any, analyser: Analyser) -> Document:
    """Return the searched fields of a message; another program may store any text."""
    entry = analyser.entry(text) if isinstance(text, str) else ""
    return dict(zip(_SEARCHED, (entry, terms_of(entry), analyser.language), strict=True))


# Documents to rows


def id_of(document: Document) -> str:
    """Return the id of a stored document; a document of another program may have none."""
    return document.get("id") or ""


def to_row(document: Document) -> Row:
    """Return the row of a stored document, which becomes its body."""
    for name in _ADDED:
        document.pop(name, None)
    if "message_id" in document:
        document = unescaped(document)
    elif document.get("metadata"):
        document["metadata"] = unescaped(document["metadata"])
    return id_of(document), document


def to_rows(documents: Iterable[Document]) -> list[Row]:
    """Return the rows of stored documents."""
    return [to_row(document) for document in documents]


# Free-form data


def escaped(value: Any) -> Any:
    """Return data with prefixes before names that begin with a dollar."""
    if isinstance(value, dict):
        return {
            _PREFIX + name if name.startswith(_MARKED) else name: escaped(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [escaped(item) for item in value]
    return value


def unescaped(value: Any) -> Any:
    """Return data without these prefixes."""
    if isinstance(value, dict):
        return {_unprefixed(name): unescaped(item) for name, item in value.items()}
    if isinstance(value, list):
        return [unescaped(item) for item in value]
    return value


def _unprefixed(name: str) -> str:
    return name[1:] if name.startswith(_PREFIX) and name[1:].startswith(_MARKED) else name


def copied(document: Document, salt: UUID, **fields: str) -> Document:
    """Return the copy of a record for a fork, with other values of some fields."""
    kept = {name: value for name, value in document.items() if name not in ("_id", TOUCHED)}
    return {**kept, "id": forked_id(salt, id_of(document)), **fields}
