"""Seal the records of a message store, and open their rows.

All sealed fields of a record are one JSON text, which is sealed as one value and stands in the
record's `metadata`. So a record is sealed or plain as a whole, and which of its fields are empty,
or how many keys its metadata has, does not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic_core import from_json, to_json

from jazzmine.encryption.fields import PARTS, SEALED
from jazzmine.encryption.keyring import Keyring, context, require_accepted
from jazzmine.errors import ConfigurationError, DecryptionError
from jazzmine.records.base import Record, RecordKind, Snapshot
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.rows import Row, row_id
from jazzmine.records.sealed import SEALED_KEY, sealed_text
from jazzmine.records.traces import LLMCallRecord, ToolTrace, TurnTrace
from jazzmine.records.usage import TraceFilter

__all__ = ["KINDS", "RecordSeal", "require_readable"]

AnyRecord = TypeVar("AnyRecord", bound=Record)

KINDS: dict[RecordKind, type[Record]] = {
    "conversations": Conversation,
    "messages": Message,
    "traces": TurnTrace,
}
_NAMES: dict[type[Record], str] = {
    Conversation: "conversation",
    Message: "message",
    TurnTrace: "trace",
}

# The sealed fields of a message without its metadata, and what is stored in their place.
_MESSAGE_WORDS = [pair for pair in SEALED[Message].items() if pair[0] != "metadata"]
# Those that are not stored if they are empty.
_LEFT_OUT = {name for name, _ in _MESSAGE_WORDS} - {"original_content"}

# What stands in the trace of a failed turn.
_SOME_ERRORS = [""]


class RecordSeal:
    """Seals and opens records with the keys of a store.

    Args:
        keyring: the keys.
        accepts_plain: whether a record that is not sealed is read as it is.
    """

    def __init__(self, keyring: Keyring, accepts_plain: bool) -> None:
        self.keyring = keyring
        self._accepts_plain = accepts_plain

    def sealed(self, snapshot: Snapshot[AnyRecord]) -> Snapshot[AnyRecord]:
        """Return a record whose sealed fields are empty, and stand sealed in its metadata."""
        record = snapshot.record
        record_id: str = getattr(record, "id")  # noqa: B009
        bound_to = context(_NAMES[type(record)], "fields", _owner(record), record_id)
        text = self.keyring.seal_text(to_json(_words(record)), bound_to)
        return Snapshot(_covered(record, {"metadata": {SEALED_KEY: text}}))

    def opened(
        self, kind: RecordKind, rows: Sequence[Row], conversation_id: str | None = None
    ) -> list[Row]:
        """Return rows whose bodies are those of the records that were sealed.

        They are dicts, or JSON if they are of messages that are stored as JSON.

        Args:
            kind: what the rows are of.
            rows: as the back end returned them.
            conversation_id: the conversation that was asked for; what was moved there from another
                one does not open.

        Raises:
            DecryptionError: a record does not open, or is not sealed.
        """
        are_texts = kind == "messages" and not (rows and isinstance(rows[0][1], dict))
        opened = self._opened_text if are_texts else self._opened_fields
        return [
            (row[0], opened(kind, row, fields, conversation_id), *row[2:])
            for row, fields in zip(rows, _parsed(rows), strict=True)
        ]

    def key_id(self, row: Row) -> str | None:
        """Return the id of the key that the record of a row is sealed with; None if it is plain."""
        [fields] = _parsed([row])
        sealed = sealed_text(fields.get("metadata"))
        return None if sealed is None else sealed.partition(":")[0]

    def is_of(self, row: Row, snapshot: Snapshot[AnyRecord]) -> bool:
        """Return whether a row is what `sealed` returned: nothing is sealed to the same twice."""
        [fields] = _parsed([row])
        return bool(fields.get("metadata") == vars(snapshot.record)["metadata"])

    def _opened_fields(
        self, kind: RecordKind, row: Row, fields: dict[str, Any], owner: str | None
    ) -> dict[str, Any]:
        sealed = self._words(kind, row, fields, owner)
        if sealed is None:
            return fields
        words = from_json(sealed)
        if not _uncover(KINDS[kind], {**fields, "metadata": {}}, words):
            raise self._changed(kind, row)
        return {**fields, "metadata": {}, **words}

    def _opened_text(
        self, kind: RecordKind, row: Row, fields: dict[str, Any], owner: str | None
    ) -> bytes:
        """Return the JSON of a message, which need not be parsed for that.

        The words come last, and of equal keys of an object the last one counts.
        """
        body: bytes = row[1].encode() if isinstance(row[1], str) else bytes(row[1])
        sealed = self._words(kind, row, fields, owner)
        if sealed is None:
            return body
        if fields.get("original_content") or not _LEFT_OUT.isdisjoint(fields):
            for name, empty in _MESSAGE_WORDS:
                if fields.get(name, empty) != empty:
                    raise self._changed(kind, row)
        words = b"}" if sealed == b"{}" else b"," + sealed[1:]
        return body.rstrip()[:-1] + b',"metadata":{}' + words

    def _words(
        self, kind: RecordKind, row: Row, fields: dict[str, Any], owner: str | None
    ) -> bytes | None:
        """Return what is sealed in a record, as JSON; None if the record is plain.

        Raises:
            DecryptionError: it does not open, or the store does not accept a plain one.
        """
        metadata, record_id = fields.get("metadata"), row_id(row)
        noun = _NAMES[KINDS[kind]]
        sealed = sealed_text(metadata)
        if sealed is None:
            require_accepted(self._accepts_plain, f"{noun} {record_id!r}")
            return None
        if len(metadata) > 1:  # type: ignore[arg-type]
            raise self._changed(kind, row)
        if owner is None:
            owner = record_id if kind == "conversations" else str(fields.get("conversation_id"))
        return self.keyring.open_text(
            sealed, context(noun, "fields", owner, record_id), f"{noun} {record_id!r}"
        )

    def _changed(self, kind: RecordKind, row: Row) -> DecryptionError:
        return DecryptionError(
            f"{_NAMES[KINDS[kind]]} {row_id(row)!r} was changed: values that are not sealed are"
            " beside its sealed ones"
        )


def require_readable(where: TraceFilter) -> None:
    """Raise unless a filter names readable fields alone.

    Raises:
        ConfigurationError: it names a sealed one, by which nothing can be found.
    """
    for kind, wanted in ((ToolTrace, where.tool), (LLMCallRecord, where.llm_call)):
        sealed = sorted(set(wanted or ()) & {*SEALED[kind], *PARTS.get(kind, ())})
        if sealed:
            raise ConfigurationError(
                f"{', '.join(sealed)} of {kind.__name__} is sealed in an encrypted store: traces"
                " cannot be found by it"
            )


def _owner(record: Record) -> str:
    return str(getattr(record, "id" if isinstance(record, Conversation) else "conversation_id"))


def _words(record: Record) -> dict[str, Any]:
    """Return the values of the sealed fields, without those that are empty."""
    words: dict[str, Any] = {}
    for name, empty in SEALED[type(record)].items():
        value = getattr(record, name)
        if value != empty:
            words[name] = value
    for name in PARTS.get(type(record), ()):
        parts = [_words(part) for part in getattr(record, name)]
        if any(parts):
            words[name] = parts
    return words


def _covered(record: AnyRecord, more: dict[str, Any]) -> AnyRecord:
    """Return a copy of a record with what is stored in place of its sealed fields."""
    covered = {**SEALED[type(record)], **more}
    for name in PARTS.get(type(record), ()):
        covered[name] = [_covered(part, {}) for part in getattr(record, name)]
    if isinstance(record, TurnTrace) and record.errors:
        covered["errors"] = _SOME_ERRORS
    return record.model_copy(update=covered)


def _uncover(kind: type[Record], fields: dict[str, Any], words: dict[str, Any]) -> bool:
    """Complete the words of lists of records with their readable fields.

    Returns:
        Whether nothing stands in place of sealed fields that does not belong there.
    """
    for name, empty in SEALED[kind].items():
        stands_for = (
            _SOME_ERRORS if kind is TurnTrace and name == "errors" and name in words else empty
        )
        if name in fields and fields[name] != stands_for:
            return False
    for name, part in PARTS.get(kind, {}).items():
        stored = fields.get(name) or []
        sealed = words.get(name, [{}] * len(stored))
        if len(sealed) != len(stored):
            return False
        for element, own in zip(stored, sealed, strict=True):
            if not _uncover(part, element, own):
                return False
        words[name] = [{**element, **own} for element, own in zip(stored, sealed, strict=True)]
    return True


def _parsed(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the bodies of rows as dicts, {} for one that is none."""
    if not rows:
        return []
    bodies = [row[1] for row in rows]
    if isinstance(bodies[0], dict):
        return bodies
    try:
        # Together, they are parsed in less time.
        separator: Any = "," if isinstance(bodies[0], str) else b","
        both: Any = ("[", "]") if isinstance(bodies[0], str) else (b"[", b"]")
        parsed: list[Any] = from_json(both[0] + separator.join(bodies) + both[1])
        if len(parsed) != len(bodies):
            raise ValueError
    except ValueError:
        parsed = [_parsed_body(body) for body in bodies]
    return [body if isinstance(body, dict) else {} for body in parsed]


def _parsed_body(body: str | bytes) -> Any:
    try:
        return from_json(body)
    except ValueError:
        return None
