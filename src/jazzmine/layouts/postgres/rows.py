"""How records become parameters of statements, and rows become records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Generic, Optional, TypeVar, get_type_hints

from pydantic import Json, ValidationError, create_model
from pydantic_core import to_json

from jazzmine.errors import NotFoundError, RecordTooLargeError
from jazzmine.layouts.postgres.text import (
    MARK,
    SIGNLESS_ZERO,
    from_json_text,
    from_text,
    to_json_text,
    to_text,
)
from jazzmine.records.base import Record, Sealed
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
    "messages_json",
    "row_limit",
    "summaries",
    "superseded_owners",
    "trace_json",
]

Row = Sequence[Any]

_MAX_BIGINT = 2**63 - 1
_MAX_PARAMETER = 2**30 - 64
"""A parameter is shorter than 1 GiB."""


# Records as parameters


def conversation_json(conversation: Sealed[Conversation]) -> str:
    """Return the parameter `conversation`."""
    return _fitting(_json_with_metadata(conversation.json))


def messages_json(messages: Iterable[Sealed[Message]]) -> str:
    """Return the parameter `messages`: the last one of each id, where its first one stands."""
    by_id = {message.record.id: message.json for message in messages}
    return _fitting(f"[{','.join(map(_json_with_metadata, by_id.values()))}]")


def superseded_owners(messages: Sequence[Sealed[Message]]) -> list[str]:
    """Return the conversations that only messages name that a later duplicate id replaces."""
    if len(messages) == 1:
        return []
    by_id = {message.record.id: message.record.conversation_id for message in messages}
    stored = set(by_id.values())
    owners = dict.fromkeys(message.record.conversation_id for message in messages)
    return [to_text(owner) for owner in owners if owner not in stored]


def trace_json(trace: Sealed[TurnTrace]) -> str:
    """Return the parameter `trace`, in which elements have all their fields."""
    record = trace.record
    return _fitting(to_json_text(record.__pydantic_serializer__.to_json(record)))


def _json_with_metadata(json: bytes) -> str:
    # Nothing but the metadata holds numbers without a column of their own.
    return to_json_text(json, numbers=b'"metadata":' in json)


def _fitting(json: str) -> str:
    if len(json) > _MAX_PARAMETER // 4 and len(json.encode()) > _MAX_PARAMETER:
        raise RecordTooLargeError("PostgreSQL takes less than 1 GiB in one call")
    return json


def row_limit(count: int | None) -> int | None:
    """Return a number of rows that PostgreSQL can count to; None is no limit."""
    return None if count is None else min(count, _MAX_BIGINT)


# Rows as records

AnyRecord = TypeVar("AnyRecord", bound=Record)

# As functions of types that are known at run time only.
_json: Any = Json
_optional: Any = Optional


class RecordRows(Generic[AnyRecord]):
    """Makes records of one kind from rows that begin with its fields, in their order.

    Args:
        kind: the class of the records.
        nested: the fields that come as JSON; pydantic reads it in one go with the rest.
        texts: the fields that come as text.
    """

    def __init__(self, kind: type[AnyRecord], nested: Sequence[str], texts: Sequence[str]) -> None:
        self._kind = kind
        self._names = tuple(kind.model_fields)
        self._nested = tuple(map(self._names.index, nested))
        self._texts = tuple(map(self._names.index, texts))
        hints = get_type_hints(kind, include_extras=True)
        fields: dict[str, Any] = {name: (_optional[_json[hints[name]]], ...) for name in nested}
        row = create_model(f"{kind.__name__}Row", __base__=kind, **fields)
        self._validate = row.__pydantic_validator__.validate_python

    def record(self, row: Row, repairs: Repairs) -> AnyRecord:
        """Return a row as a record; columns after its fields are left out.

        Raises:
            ValidationError: it can't be read, and not be repaired.
        """
        if self._is_marked(row):
            row = self._restored(row)
        values = dict(zip(self._names, row, strict=False))
        try:
            record: AnyRecord = self._validate(values)
        except ValidationError:
            return repairs.record(self._kind, self._parsed(values))
        # The row's class differs in what it was read from alone.
        record.__class__ = self._kind
        return record

    def records(self, rows: Sequence[Row], repairs: Repairs) -> list[AnyRecord]:
        """Return rows as records, without those that can't be read."""
        return repairs.listing(rows, lambda row: self.record(row, repairs), self._stored_id)

    def page(self, rows: Sequence[Row], after: str | None, repairs: Repairs) -> list[AnyRecord]:
        """Return the rows of a page as records, without those that can't be read.

        Raises:
            NotFoundError: it should start after a record that is not in the listing.
        """
        if after is not None:
            if not rows:
                raise NotFoundError(f"after={after!r} is no record of this listing")
            if rows[0][0] is None:
                return []
        return self.records(rows, repairs)

    def value(self, row: Row, name: str) -> Any:
        """Return what a row holds for a field."""
        return row[self._names.index(name)]

    @staticmethod
    def _stored_id(row: Row) -> str:
        return from_text(row[0])

    def _parsed(self, values: dict[str, Any]) -> dict[str, Any]:
        for place in self._nested:
            name = self._names[place]
            with suppress(RecursionError):
                if values[name] is not None:
                    values[name] = parse_json(values[name])
        return values

    def _is_marked(self, row: Row) -> bool:
        for place in self._texts:
            if MARK in row[place]:
                return True
        for place in self._nested:
            json = row[place]
            if json is not None and (MARK in json or SIGNLESS_ZERO in json):
                return True
        return False

    def _restored(self, row: Row) -> Row:
        values = list(row)
        for place in self._texts:
            values[place] = from_text(values[place])
        for place in self._nested:
            if values[place] is not None:
                values[place] = from_json_text(values[place])
        return values


CONVERSATIONS = RecordRows(
    Conversation, nested=("metadata",), texts=("id", "user_id", "agent_id", "title")
)
MESSAGES = RecordRows(
    Message,
    nested=(
        "explicit_context",
        "entities",
        "invoked_flows",
        "invoked_tools",
        "reasoning_steps",
        "errors",
        "metadata",
    ),
    texts=(
        "id",
        "conversation_id",
        "user_id",
        "original_content",
        "enhanced_message",
        "intent",
    ),
)
TRACES = RecordRows(
    TurnTrace,
    nested=(
        "llm_calls",
        "task_emissions",
        "tool_traces",
        "emission_records",
        "slot_events",
        "confirmation_events",
        "flow_events",
        "reasoning_steps",
        "errors",
        "detected_entities",
    ),
    texts=("id", "message_id", "conversation_id", "user_id", "agent_id", "detected_intent"),
)


# Filters and sums

_TEXTS = ("agent_id", "user_id", "conversation_id", "intent")
_NUMBERS = ("started_from", "started_until", "min_total_tokens", "min_latency_ms")
_FIELDS = ("tool", "llm_call")


def filter_parameters(where: TraceFilter) -> tuple[list[str], dict[str, Any]]:
    """Return the names of the conditions that a filter has, and their parameters."""
    parameters: dict[str, Any] = {}
    for name in _TEXTS:
        if (text := getattr(where, name)) is not None:
            parameters[name] = to_text(text)
    for name in _NUMBERS:
        if (number := getattr(where, name)) is not None:
            parameters[name] = number
    for name in _FIELDS:
        if (fields := getattr(where, name)) is not None:
            # In a list as the elements are, so that no number is at the top.
            parameters[name] = to_json_text(to_json([fields]))
    conditions = list(parameters)
    if where.has_errors is not None:
        conditions.append("errors" if where.has_errors else "no_errors")
    return conditions, parameters


def summaries(rows: Iterable[Row]) -> list[UsageSummary]:
    """Return the sums of each group, most tokens first, equal ones by their key."""
    found = [_summary(row) for row in rows]
    return sorted(found, key=lambda summary: (-summary.total_tokens, summary.key))


def are_finite(rows: Iterable[Row]) -> bool:
    """Return whether all sums of energy and CO2 are numbers."""
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
