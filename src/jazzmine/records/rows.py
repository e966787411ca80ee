"""Stored rows as records: parsed together, or one by one, and left out if unreadable."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from jazzmine.records.base import Record, require_stored
from jazzmine.records.encrypted import ENCRYPTED_KEY, encrypted_text, encrypted_without_keys
from jazzmine.records.unreadable import Unreadable, unreadable

Row: TypeAlias = Sequence[Any]
"""A stored record: its id (a str, or UTF-8), then its body, then what only its back end reads.

The body is the record as JSON (bytes or str), or a dict of JSON types. All rows of a page have
bodies of one type.
"""

AnyRecord = TypeVar("AnyRecord", bound=Record)

# Rows and bytes that are parsed in a few milliseconds.
_FEW_ROWS, _FEW_BYTES = 200, 500_000

# In a thread, other threads can run after this many rows.
_PART = 10


class Decryption(Protocol):
    """Decrypts rows for a decoder: `encryption.records.RecordCodec`."""

    def decrypted(
        self, kind: type[Record], rows: Sequence[Row], conversation_id: str | None
    ) -> list[dict[str, Any] | None]:
        """Return the bodies of rows with the decrypted values; None for one that is no object."""


class RowDecoder(Generic[AnyRecord]):
    """Converts rows to records of one class; decrypts them in a store with keys."""

    def __init__(self, kind: type[AnyRecord], codec: Decryption | None = None) -> None:
        self._codec = codec
        self.kind: type[AnyRecord] = kind
        self._unreadable = Unreadable()
        self._always_stored = kind.always_stored
        self._validator = kind.__pydantic_validator__
        self._list_validator = _list_adapter(kind).validator

    def record(self, row: Row, conversation_id: str | None = None) -> AnyRecord:
        """Return the record of a row.

        Raises:
            ValidationError: it cannot be read; the text names the record and what to do.
            DecryptionError: no key of the store opens it, or it is plain in a store with keys.
        """
        if self._codec is not None:
            [body] = self._codec.decrypted(self.kind, [row], conversation_id)
            return self._validated(row, body)
        record = self._validated(row, row[1])
        self._require_plain(record)
        return record

    def _validated(self, row: Row, body: Any) -> AnyRecord:
        try:
            record: AnyRecord
            if isinstance(body, dict):
                record = self._validator.validate_python(body)
            else:
                record = self._validator.validate_json(body)
            require_stored(record)
        except ValidationError as error:
            encrypted = self._codec is not None
            raise unreadable(self.kind, row_id(row), error, hides_values=encrypted) from None
        return record

    def records_in_parts(
        self, rows: Sequence[Row], conversation_id: str | None = None
    ) -> list[AnyRecord]:
        """Return the records of rows, in parts between which other threads can run."""
        return [
            record
            for begin in range(0, len(rows), _PART)
            for record in self.records(rows[begin : begin + _PART], conversation_id)
        ]

    def records(self, rows: Sequence[Row], conversation_id: str | None = None) -> list[AnyRecord]:
        """Return the records of rows; log and leave out the unreadable ones."""
        if not rows:
            return []
        always, codec = self._always_stored, self._codec
        bodies: list[Any]
        if codec is None:
            bodies = [row[1] for row in rows]
        else:
            bodies = codec.decrypted(self.kind, rows, conversation_id)
        try:
            records: list[AnyRecord] = self._parsed(bodies)
        except ValidationError:
            return self._one_by_one(rows, conversation_id)
        for record in records:
            if not always <= record.__pydantic_fields_set__:
                return self._one_by_one(rows, conversation_id)
            if codec is None and ENCRYPTED_KEY in vars(record)["metadata"]:
                self._require_plain(record)
        return records

    def _one_by_one(self, rows: Sequence[Row], conversation_id: str | None) -> list[AnyRecord]:
        def read(row: Row) -> AnyRecord:
            return self.record(row, conversation_id)

        return list(self._unreadable.readable(rows, read))

    def _require_plain(self, record: AnyRecord) -> None:
        """Raise `DecryptionError` if a record is encrypted."""
        encrypted = encrypted_text(vars(record)["metadata"])
        if encrypted is not None:
            name = f"{self.kind.__name__} {vars(record)['id']!r}"
            raise encrypted_without_keys(name, encrypted)

    def _parsed(self, bodies: list[Any]) -> list[AnyRecord]:
        """Return the records of bodies; parsing them together takes half the time."""
        first = bodies[0]
        records: list[AnyRecord]
        if first is None or isinstance(first, dict):
            records = self._list_validator.validate_python(bodies)
        elif isinstance(first, str):
            records = self._list_validator.validate_json(f"[{','.join(bodies)}]")
        else:
            records = self._list_validator.validate_json(b"[%b]" % b",".join(bodies))
        return records


@cache
def _list_adapter(kind: Any) -> TypeAdapter[list[Any]]:
    return TypeAdapter(list[kind])


def are_many(rows: Sequence[Row]) -> bool:
    """Return whether parsing rows takes longer than passing them to a thread."""
    if len(rows) > _FEW_ROWS:
        return True
    return sum([len(row[1]) for row in rows]) > _FEW_BYTES


def body_of(row: Row) -> Any:
    """Return a copy of the body of a row as JSON types; None if it is not JSON."""
    body = row[1]
    if isinstance(body, dict):
        return body.copy()
    try:
        return from_json(body)
    except ValueError:
        return None


def id_in(row: Row, name: str) -> str:
    """Return an id in the record of a row as it is stored; "" if the row cannot be read."""
    body = body_of(row)
    value = body.get(name) if isinstance(body, dict) else None
    return value if isinstance(value, str) else ""


def row_id(row: Row) -> str:
    """Return the id of a row."""
    stored = row[0]
    return stored.decode(errors="replace") if isinstance(stored, bytes) else str(stored)
