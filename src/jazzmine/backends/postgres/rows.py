"""Convert records to parameters of statements, and rows to records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from jazzmine.backends.postgres.text import from_json_text, from_text, to_json_text, to_text
from jazzmine.errors import NotFoundError, RecordTooLargeError
from jazzmine.records.base import Record, Snapshot
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import Repairs, parse_json
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageSummary

__all__ = [
    "CONVERSATIONS",
    "MESSAGES",
    "TRACES",
    "RecordRows",
    "are_finite",
    "conversation_json",
    "filter_parameters",
    "many_json",
    "message_parameters",
    "messages_json",
    "row_limit",
    "summaries",
    "trace_json",
]

Row = Sequence[Any]

_MAX_BIGINT = 2**63 - 1
_MAX_PARAMETER = 2**30 - 64
"""A parameter is shorter than 1 GiB."""


# Records as parameters

_write_messages = TypeAdapter(list[Message]).serializer.to_json


def conversation_json(conversation: Snapshot[Conversation]) -> str:
    """Return the parameter `conversation` for a conversation."""
    json = conversation.json
    # Only the metadata contains numbers that have no column.
    return _fitting(to_json_text(json, numbers=b'"metadata":' in json))


def messages_json(messages: Sequence[Message]) -> str:
    """Return the parameter `messages` for messages whose ids differ."""
    json = _write_messages(messages, exclude_defaults=Message.omits_defaults)
    return _fitting(to_json_text(json, numbers=b'"metadata":' in json, depth=2))


def message_parameters(
    messages: Iterable[Snapshot[Message]], conversation: Snapshot[Conversation] | None = None
) -> dict[str, object]:
    """Return the parameters of a write of messages; of two with one id, the later one is used.

    It gets the number of the first, whose conversation must be stored too.

    Args:
        messages: at least one.
        conversation: the conversation that the same statement stores before them.
    """
    by_id: dict[str, Message] = {}
    owners: set[str] = set()
    for message in messages:
        by_id[message.record.id] = message.record
        owners.add(to_text(message.record.conversation_id))
    records = list(by_id.values())
    stored = None if conversation is None else to_text(conversation.record.id)
    return {
        "messages": messages_json(records),
        "count": len(records),
        "conversations": [owner for owner in owners if stored is None or owner < stored],
        "later_conversations": [owner for owner in owners if stored is not None and owner > stored],
    }


def trace_json(trace: Snapshot[TurnTrace]) -> str:
    """Return the parameter `trace`, in which the elements of lists have all their fields."""
    record = trace.record
    return _fitting(to_json_text(record.__pydantic_serializer__.to_json(record)))


def many_json(records: Sequence[Snapshot[Any]]) -> str:
    """Return the parameter for several conversations, or for several traces."""
    json = ",".join(map(_whole_json, records))
    return _fitting(f"[{json}]")


def _whole_json(record: Snapshot[Any]) -> str:
    return (trace_json if isinstance(record.record, TurnTrace) else conversation_json)(record)


def _fitting(json: str) -> str:
    if len(json) > _MAX_PARAMETER // 4 and len(json.encode()) > _MAX_PARAMETER:
        raise RecordTooLargeError("PostgreSQL takes less than 1 GiB in one call")
    return json


def row_limit(count: int | None) -> int | None:
    """Return a limit that PostgreSQL accepts; None is no limit."""
    return None if count is None else min(count, _MAX_BIGINT)


# Rows as records

AnyRecord = TypeVar("AnyRecord", bound=Record)


class RecordRows(Generic[AnyRecord]):
    """Converts rows, each with a record as JSON and its `seq`, to records of one class.

    Args:
        kind: the class of the records.
    """

    def __init__(self, kind: type[AnyRecord]) -> None:
        self._kind = kind
        self._record = kind.__pydantic_validator__.validate_json
        self._records = TypeAdapter(list[kind]).validator.validate_json  # type: ignore[valid-type]

    def record(self, row: Row, repairs: Repairs) -> AnyRecord:
        """Return the record of a row.

        Raises:
            ValidationError: it can be neither read nor repaired.
        """
        text = from_json_text(row[0])
        try:
            record: AnyRecord = self._record(text)
        except ValidationError:
            return repairs.record(self._kind, parse_json(text))
        return record

    def records(self, rows: Sequence[Row], repairs: Repairs) -> list[AnyRecord]:
        """Return the records of rows, parsed together, without the unreadable ones."""
        texts = ",".join([row[0] for row in rows])
        try:
            records: list[AnyRecord] = self._records(from_json_text(f"[{texts}]"))
        except ValidationError:
            return repairs.listing(
                rows, lambda row: self.record(row, repairs), lambda row: self.value(row, "id")
            )
        return records

    def page(self, rows: Sequence[Row], after: str | None, repairs: Repairs) -> list[AnyRecord]:
        """Return the records of a page of rows, without the unreadable ones.

        Raises:
            NotFoundError: the page should start after a record that is not in the listing.
        """
        if after is not None:
            if not rows:
                raise NotFoundError(f"after={after!r} is no record of this listing")
            if rows[0][1] is None:
                return []
        return self.records(rows, repairs)

    def value(self, row: Row, name: str) -> Any:
        """Return the value that a row has for a field."""
        return parse_json(from_json_text(row[0]))[name]


CONVERSATIONS = RecordRows(Conversation)
MESSAGES = RecordRows(Message)
TRACES = RecordRows(TurnTrace)


# Filters and sums

_TEXTS = ("agent_id", "user_id", "conversation_id", "intent")
_NUMBERS = ("started_from", "started_until", "min_total_tokens", "min_latency_ms")
_FIELDS = ("tool", "llm_call")


def filter_parameters(where: TraceFilter) -> tuple[list[str], dict[str, Any]]:
    """Return the names of a filter's conditions, and their parameters."""
    parameters: dict[str, Any] = {}
    for name in _TEXTS:
        if (text := getattr(where, name)) is not None:
            parameters[name] = to_text(text)
    for name in _NUMBERS:
        if (number := getattr(where, name)) is not None:
            parameters[name] = number
    conditions = list(parameters)
    for name in _FIELDS:
        if (fields := getattr(where, name)) is not None:
            # In a list, so that its numbers are as deep as those of the stored elements.
            parameters[name] = to_json_text(to_json([fields]))
            nested = any(isinstance(value, (dict, list)) for value in fields.values())
            conditions.append(f"nested {name}" if nested else name)
    if where.has_errors is not None:
        conditions.append("errors" if where.has_errors else "no_errors")
    return conditions, parameters


def summaries(rows: Iterable[Row]) -> list[UsageSummary]:
    """Return the summaries of the groups, by descending tokens, then by key."""
    found = [_summary(row) for row in rows]
    return sorted(found, key=lambda summary: (-summary.total_tokens, summary.key))


def are_finite(rows: Iterable[Row]) -> bool:
    """Return whether all sums of energy and CO2 are finite."""
    return all(math.isfinite(row[-2]) and math.isfinite(row[-1]) for row in rows)


def _summary(row: Row) -> UsageSummary:
    key, turns, failed, prompt, completion, total, count, latency, p50, p95, longest, kwh, co2 = row
    return UsageSummary(
        key=from_text(key),
        turns=turns,
        failed_turns=failed,
        prompt_tokens=int(prompt),
        completion_tokens=int(completion),
        total_tokens=int(total),
        mean_latency_ms=int(latency) / count,
        p50_latency_ms=p50,
        p95_latency_ms=p95,
        max_latency_ms=longest,
        total_energy_kwh=kwh,
        total_co2_g=co2,
    )
