"""Convert records to documents and back.

A document has every field of its record under the field's name, so that queries of other
programs can use these names, with two exceptions: `is_flagged` is stored only if it is true,
which keeps its sparse index small, and in free-form data a name that begins with a dollar gets
a prefix. A conversation may have one field more, `log_lock`.

The server sets `_id`: an upsert that inserts creates an ObjectId, which begins with the time in
seconds and a counter, and no update changes it. So `_id` is the order in which documents were
first stored, also for those of jazzmine 0.1.

https://www.mongodb.com/docs/manual/reference/bson-types/#objectid
https://www.mongodb.com/docs/manual/reference/method/db.collection.replaceOne/#upsert
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from jazzmine.errors import RecordTooLargeError
from jazzmine.records.base import Record, Snapshot
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import Repairs
from jazzmine.records.traces import TurnTrace

__all__ = [
    "LOG_LOCK",
    "Document",
    "Turn",
    "conversation_document",
    "escaped",
    "message_documents",
    "read_conversation",
    "read_message",
    "read_trace",
    "stored_id",
    "trace_document",
    "turn_documents",
]

AnyRecord = TypeVar("AnyRecord", bound=Record)

Document: TypeAlias = dict[str, Any]

# The field of a conversation's document that orders the changes of its log.
LOG_LOCK = "log_lock"

# https://www.mongodb.com/docs/manual/reference/limits/#mongodb-limit-BSON-Document-Size
_MAX_BYTES = 16 * 2**20

# The server adds an ObjectId of 12 bytes under the name `_id`.
_BYTES_OF_ID = 17

# A document is always less than this many times the size of its record's JSON.
_LARGEST_EXPANSION = 16

# Names that begin with a dollar are restricted (and `$ref` makes the driver build a DBRef),
# so the full-width dollar is put before them, and before names that begin with it.
# https://www.mongodb.com/docs/manual/core/dot-dollar-considerations/
_PREFIX = "＄"
_MARKED = ("$", _PREFIX)


def conversation_document(snapshot: Snapshot[Conversation]) -> Document:
    """Return the document of a conversation, or raise RecordTooLargeError."""
    document: Document = Conversation.__pydantic_serializer__.to_python(
        snapshot.record, mode="json"
    )
    if document["metadata"]:
        document["metadata"] = escaped(document["metadata"])
    return _fitting(document, snapshot.json)


def _message_document(snapshot: Snapshot[Message]) -> Document:
    """Return the document of a message, or raise RecordTooLargeError."""
    document: Document = Message.__pydantic_serializer__.to_python(snapshot.record, mode="json")
    if document["metadata"]:
        document["metadata"] = escaped(document["metadata"])
    if not document["is_flagged"]:
        del document["is_flagged"]
    return _fitting(document, snapshot.json)


def trace_document(snapshot: Snapshot[TurnTrace]) -> Document:
    """Return the document of a trace, or raise RecordTooLargeError."""
    document: Document = TurnTrace.__pydantic_serializer__.to_python(snapshot.record, mode="json")
    _change_free_form(document, escaped)
    return _fitting(document, snapshot.json)


def message_documents(messages: Sequence[Snapshot[Message]]) -> list[Document]:
    """Return a document for each id; of two messages with one id, the later one is used."""
    by_id = {snapshot.record.id: snapshot for snapshot in messages}
    return [_message_document(snapshot) for snapshot in by_id.values()]


class Turn(NamedTuple):
    """The documents of a turn, and the conversations that its messages name."""

    conversation: Document | None
    messages: list[Document]
    trace: Document | None
    conversations: list[str]

    @property
    def brings_message_of_trace(self) -> bool:
        """Whether the message that the trace belongs to is one of the turn's."""
        wanted = None if self.trace is None else self.trace["message_id"]
        return any(message["id"] == wanted for message in self.messages)

    @property
    def writes(self) -> int:
        """The number of documents to write."""
        return (self.conversation is not None) + len(self.messages) + (self.trace is not None)

    @property
    def owners(self) -> list[str]:
        """The ids of the conversations and messages that must not be deleted during the write."""
        trace = self.trace
        return [
            *self.conversations,
            *([] if trace is None else [trace["conversation_id"], trace["message_id"]]),
        ]


def turn_documents(
    conversation: Snapshot[Conversation] | None,
    messages: Sequence[Snapshot[Message]],
    trace: Snapshot[TurnTrace] | None,
) -> Turn:
    """Return the documents of a turn."""
    return Turn(
        None if conversation is None else conversation_document(conversation),
        message_documents(messages),
        None if trace is None else trace_document(trace),
        [snapshot.record.conversation_id for snapshot in messages],
    )


def _fitting(document: Document, json: bytes) -> Document:
    """Check the size of a document, and return the document.

    Raises:
        RecordTooLargeError: it is larger than the server accepts.
    """
    if len(json) * _LARGEST_EXPANSION > _MAX_BYTES:
        from bson import encode

        size = len(encode(document)) + _BYTES_OF_ID
        if size > _MAX_BYTES:
            raise RecordTooLargeError(
                f"record {document['id']!r} takes {size} bytes as a MongoDB document;"
                f" {_MAX_BYTES} is the most"
            )
    return document


def _reader(
    kind: type[AnyRecord], unescape: Callable[[Document], None]
) -> Callable[[Document, Repairs], AnyRecord]:
    """Return a function that reads a document into a record of a class; it changes the document.

    The function raises `ValidationError` if the record can be neither read nor repaired.
    """

    def read(document: Document, repairs: Repairs) -> AnyRecord:
        del document["_id"]
        unescape(document)
        return repairs.read(kind, document)

    return read


def _unescape_metadata(document: Document) -> None:
    if document.get("metadata"):
        document["metadata"] = _unescaped(document["metadata"])


def _unescape_conversation(document: Document) -> None:
    document.pop(LOG_LOCK, None)
    _unescape_metadata(document)


def _unescape_trace(document: Document) -> None:
    _change_free_form(document, _unescaped)


read_conversation: Callable[[Document, Repairs], Conversation] = _reader(
    Conversation, _unescape_conversation
)
read_message: Callable[[Document, Repairs], Message] = _reader(Message, _unescape_metadata)
read_trace: Callable[[Document, Repairs], TurnTrace] = _reader(TurnTrace, _unescape_trace)


def stored_id(document: Document) -> Any:
    """Return a document's id; in a document of another program it may have any type, or be None."""
    return document.get("id")


# The free-form fields of a trace: the names in the elements of each of its lists.
_FREE_FORM = (
    ("tool_traces", ("final_data", "intermediates", "api_calls")),
    ("slot_events", ("value",)),
    ("emission_records", ("metadata",)),
)


def _change_free_form(trace: Document, change: Callable[[Any], Any]) -> None:
    for section, names in _FREE_FORM:
        elements = trace.get(section)
        if not isinstance(elements, list):
            continue
        for element in elements:
            for name in names:
                if isinstance(element, dict) and element.get(name):
                    element[name] = change(element[name])


def escaped(value: Any) -> Any:
    """Return free-form data with prefixes before names that begin with a dollar."""
    if isinstance(value, dict):
        return {
            _PREFIX + name if name.startswith(_MARKED) else name: escaped(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [escaped(item) for item in value]
    return value


def _unescaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {_unprefixed(name): _unescaped(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_unescaped(item) for item in value]
    if hasattr(value, "as_doc"):
        # The driver decodes an object with `$ref`, as jazzmine 0.1 may have stored it, as a DBRef.
        return {name: _unescaped(item) for name, item in value.as_doc().items()}
    return value


def _unprefixed(name: str) -> str:
    return name[1:] if name.startswith(_PREFIX) and name[1:].startswith(_MARKED) else name
