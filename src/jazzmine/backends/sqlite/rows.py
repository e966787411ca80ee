"""Convert records to values of columns, and rows to records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError

from jazzmine.records.base import Record, Snapshot, require_stored
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import Repairs, parse_json, unreadable
from jazzmine.records.traces import TurnTrace

__all__ = [
    "CONVERSATIONS",
    "MESSAGES",
    "TRACES",
    "RecordRows",
    "Row",
    "as_bytes",
    "conversation_values",
    "message_values",
    "trace_values",
]

Row: TypeAlias = Sequence[Any]
"""A row of a query: an id and a body, both as bytes, then what else the query selects."""


# Records as values, in the order of the columns


def conversation_values(conversation: Snapshot[Conversation]) -> Row:
    """Return the values of `stored_conversations`."""
    record = conversation.record
    return (
        record.id,
        record.user_id,
        record.agent_id,
        record.last_updated_at,
        conversation.json.decode(),
    )


def message_values(message: Snapshot[Message]) -> Row:
    """Return the values of `stored_messages`."""
    record = message.record
    return (
        record.id,
        record.conversation_id,
        record.user_id,
        record.timestamp,
        record.is_flagged,
        message.json.decode(),
    )


def trace_values(trace: Snapshot[TurnTrace]) -> Row:
    """Return the values of `stored_turn_traces`."""
    record = trace.record
    return (
        record.id,
        record.message_id,
        record.conversation_id,
        record.user_id,
        record.agent_id,
        record.turn_number,
        record.started_at_ms,
        record.total_latency_ms,
        record.total_prompt_tokens,
        record.total_completion_tokens,
        record.total_tokens,
        record.total_energy_kwh,
        record.total_co2_g,
        record.detected_intent,
        bool(record.errors),
        trace.json.decode(),
    )


# Rows as records

AnyRecord = TypeVar("AnyRecord", bound=Record)


class RecordRows(Generic[AnyRecord]):
    """Converts rows to records of one class.

    Args:
        kind: the class of the records.
    """

    def __init__(self, kind: type[AnyRecord]) -> None:
        self._kind = kind
        self._always_stored = kind.always_stored
        self._record = kind.__pydantic_validator__.validate_json
        self._records = TypeAdapter(list[kind]).validator.validate_json  # type: ignore[valid-type]

    def record(self, row: Row, repairs: Repairs) -> AnyRecord:
        """Return the record of a row.

        Raises:
            ValidationError: it can be neither read nor repaired.
        """
        body: bytes = row[1]
        try:
            record: AnyRecord = self._record(body)
            require_stored(record)
        except ValidationError as error:
            return self._repaired(row, repairs, error)
        return record

    def records(self, rows: Sequence[Row], repairs: Repairs) -> list[AnyRecord]:
        """Return the records of rows, parsed together, without the unreadable ones."""
        array = b"[%b]" % b",".join([row[1] for row in rows])
        records = self.array(array, len(rows))
        if records is None:
            return repairs.listing(rows, lambda row: self.record(row, repairs), stored_id)
        return records

    def array(self, bodies: bytes, count: int) -> list[AnyRecord] | None:
        """Return the `count` records of a JSON array, or None if one of them is unreadable."""
        try:
            records: list[AnyRecord] = self._records(bodies)
        except ValidationError:
            return None
        always = self._always_stored
        if len(records) == count and all(
            always <= record.__pydantic_fields_set__ for record in records
        ):
            return records
        return None

    def _repaired(self, row: Row, repairs: Repairs, error: ValidationError) -> AnyRecord:
        try:
            raw = parse_json(row[1])
        except ValueError:
            raw = None
        if not isinstance(raw, dict):
            raise unreadable(self._kind, stored_id(row), error)
        return repairs.record(self._kind, raw)


def as_bytes(row: Row) -> Row:
    """Return a row of the connection that writes, which has texts, as one of the others."""
    return [value.encode() if isinstance(value, str) else value for value in row]


def stored_id(row: Row) -> str:
    """Return the id of a row."""
    stored: bytes = row[0]
    return stored.decode(errors="replace")


CONVERSATIONS = RecordRows(Conversation)
MESSAGES = RecordRows(Message)
TRACES = RecordRows(TurnTrace)
