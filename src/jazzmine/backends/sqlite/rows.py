"""The tables of a message store, and the values of their columns for a record."""

from __future__ import annotations

from typing import Any, TypeAlias

from jazzmine.backends.columns import CONVERSATIONS, MESSAGES, TURN_TRACES, Table
from jazzmine.backends.sqlite.migrations import Component
from jazzmine.records.base import RecordKind
from jazzmine.records.context_window import CALLERS
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
from jazzmine.records.types import MAX_INT

Values: TypeAlias = tuple[Any, ...]

TABLES: dict[RecordKind, str] = {
    "conversations": "stored_conversations",
    "messages": "stored_messages",
    "traces": "stored_turn_traces",
}

# The columns in the order of the values below.
CONVERSATION_COLUMNS = "id, user_id, agent_id, last_updated_at, body"
MESSAGE_COLUMNS = "id, conversation_id, user_id, timestamp, is_flagged, is_call, body"
TRACE_COLUMNS = (
    "id, message_id, conversation_id, user_id, agent_id, turn_number, started_at_ms,"
    " total_latency_ms, total_prompt_tokens, total_completion_tokens, total_tokens,"
    " total_energy_kwh, total_co2_g, cached_prompt_tokens, cache_write_tokens, reasoning_tokens,"
    " cost_usd, unreported_calls, unpriced_calls, detected_intent, has_errors, is_copy, body"
)


def conversation_values(record: Conversation, body: bytes) -> Values:
    """Return the values of `stored_conversations`; `body` is the record in JSON."""
    return record.id, record.user_id, record.agent_id, record.last_updated_at, body.decode()


def message_values(record: Message, body: bytes) -> Values:
    """Return the values of `stored_messages`."""
    return (
        record.id,
        record.conversation_id,
        record.user_id,
        record.timestamp,
        record.is_flagged,
        record.role in CALLERS,
        body.decode(),
    )


def trace_values(record: TurnTrace, body: bytes) -> Values:
    """Return the values of `stored_turn_traces`."""
    calls = record.llm_calls
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
        min(MAX_INT, sum(call.cached_prompt_tokens for call in calls)),
        min(MAX_INT, sum(call.cache_write_tokens for call in calls)),
        min(MAX_INT, sum(call.reasoning_tokens for call in calls)),
        sum(call.cost_usd or 0.0 for call in calls),
        sum(call.prompt_tokens <= 0 for call in calls),
        sum(call.cost_usd is None for call in calls),
        record.detected_intent,
        bool(record.errors),
        record.copied_from is not None,
        body.decode(),
    )


def _view(table: Table) -> str:
    columns = ", ".join(
        f"{_column(name, default)} AS {name}" for name, default in table.defaults.items()
    )
    return f"SELECT {columns}, seq FROM stored_{table.name}"


def _column(name: str, default: str | None) -> str:
    value = f"json_extract(body, '$.{name}')"
    return value if default is None else f"coalesce({value}, {default})"


MESSAGE_TABLES = Component(
    "messages", {table.name: _view(table) for table in (CONVERSATIONS, MESSAGES, TURN_TRACES)}
)
