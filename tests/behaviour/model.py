"""A simple model of a message store, to compare the stores with.

The order of records comes from dicts, which keep the order in which keys were first set, and from
stable sorts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from typing import Any, TypeVar

from jazzmine import (
    Conversation,
    IntegrityError,
    Message,
    NotFoundError,
    TraceFilter,
    TurnTrace,
    UsageSummary,
)

__all__ = ["Model"]

AnyRecord = TypeVar("AnyRecord", Conversation, Message, TurnTrace)


class Model:
    """A message store in three dicts, with the methods of a store."""

    def __init__(self) -> None:
        self.conversations: dict[str, Conversation] = {}
        self.messages: dict[str, Message] = {}
        self.traces: dict[str, TurnTrace] = {}

    # Conversations

    def store_conversation(self, conversation: Conversation) -> None:
        self.conversations[conversation.id] = _copied(conversation)

    update_conversation = store_conversation

    def get_conversation_by_id(self, conversation_id: str) -> Conversation | None:
        return self.conversations.get(conversation_id)

    def get_conversations_by_user_id(self, user_id: str, **page: Any) -> list[Conversation]:
        return self._newest_conversations(lambda c: c.user_id == user_id, **page)

    def get_conversations_by_agent_id(self, agent_id: str, **page: Any) -> list[Conversation]:
        return self._newest_conversations(lambda c: c.agent_id == agent_id, **page)

    def _newest_conversations(
        self, wanted: Callable[[Conversation], bool], **page: Any
    ) -> list[Conversation]:
        latest_first = reversed(self.conversations.values())
        newest_first = sorted(latest_first, key=lambda c: -c.last_updated_at)
        return _page([c for c in newest_first if wanted(c)], **page)

    def delete_conversation(self, conversation_id: str) -> bool:
        for message in list(self.messages.values()):
            if message.conversation_id == conversation_id:
                self.delete_message(message.id)
        return self.conversations.pop(conversation_id, None) is not None

    # Messages

    def store_message(self, message: Message) -> None:
        self.store_messages([message])

    update_message = store_message

    def store_messages(self, messages: Iterable[Message]) -> None:
        checked = [_copied(message) for message in messages]
        for message in checked:
            if message.conversation_id not in self.conversations:
                raise IntegrityError
        self.messages.update({message.id: message for message in checked})

    def get_message_by_id(self, message_id: str) -> Message | None:
        return self.messages.get(message_id)

    def get_messages_by_ids(self, message_ids: Iterable[str]) -> list[Message]:
        return [self.messages[one] for one in message_ids if one in self.messages]

    def get_messages_by_conversation_id(self, conversation_id: str, **page: Any) -> list[Message]:
        return _page(
            [m for m in self._oldest_messages() if m.conversation_id == conversation_id], **page
        )

    def get_messages_by_user_id(self, user_id: str, **page: Any) -> list[Message]:
        return _page([m for m in self._oldest_messages() if m.user_id == user_id], **page)

    def iter_messages(self, conversation_id: str, *, batch_size: int) -> list[Message]:
        return self.get_messages_by_conversation_id(conversation_id)

    def get_immediate_context(self, conversation_id: str, n: int) -> list[Message]:
        everything = self.get_messages_by_conversation_id(conversation_id)
        visible = [message for message in everything if not message.is_flagged]
        return visible[max(0, len(visible) - n) :]

    def _oldest_messages(self) -> list[Message]:
        return sorted(self.messages.values(), key=lambda m: m.timestamp)

    def delete_message(self, message_id: str) -> bool:
        for trace in list(self.traces.values()):
            if trace.message_id == message_id:
                del self.traces[trace.id]
        return self.messages.pop(message_id, None) is not None

    def flag_message(self, message_id: str, flagged: bool) -> bool:
        if message_id in self.messages:
            self.messages[message_id].is_flagged = flagged
        return message_id in self.messages

    # Traces

    def store_turn_trace(self, trace: TurnTrace) -> None:
        checked = _copied(trace)
        known = self.traces.get(trace.id)
        if trace.message_id not in self.messages:
            raise IntegrityError
        if known is not None and known.message_id != trace.message_id:
            raise IntegrityError
        for other in list(self.traces.values()):
            if other.message_id == trace.message_id and other.id != trace.id:
                del self.traces[other.id]
        self.traces[trace.id] = checked

    def get_turn_trace_by_id(self, trace_id: str) -> TurnTrace | None:
        return self.traces.get(trace_id)

    def get_turn_trace_by_message_id(self, message_id: str) -> TurnTrace | None:
        found = [trace for trace in self.traces.values() if trace.message_id == message_id]
        return found[0] if found else None

    def get_turn_traces_by_conversation_id(self, conversation_id: str) -> list[TurnTrace]:
        found = [t for t in self.traces.values() if t.conversation_id == conversation_id]
        return sorted(found, key=lambda t: t.turn_number)

    def get_turn_traces_by_agent_id(
        self, agent_id: str, limit: int, offset: int
    ) -> list[TurnTrace]:
        found = [trace for trace in self._newest_traces() if trace.agent_id == agent_id]
        return found[offset : offset + limit]

    def _newest_traces(self) -> list[TurnTrace]:
        latest_first = reversed(self.traces.values())
        return sorted(latest_first, key=lambda t: -t.started_at_ms)

    def store_turn(
        self,
        *,
        conversation: Conversation | None,
        messages: list[Message],
        trace: TurnTrace | None,
    ) -> None:
        for record in (conversation, *messages, trace):
            if record is not None:
                type(record).model_validate(record)
        before = dict(self.conversations), dict(self.messages), dict(self.traces)
        try:
            if conversation is not None:
                self.store_conversation(conversation)
            self.store_messages(messages)
            if trace is not None:
                self.store_turn_trace(trace)
        except Exception:
            self.conversations, self.messages, self.traces = before
            raise

    def find_turn_traces(
        self, where: TraceFilter, *, limit: int, after: str | None = None
    ) -> list[TurnTrace]:
        behind = _page(self._newest_traces(), after=after)
        return [trace for trace in behind if _meets(trace, where)][:limit]

    def summarize_usage(self, where: TraceFilter, *, by: str) -> list[UsageSummary]:
        found = self.find_turn_traces(where, limit=len(self.traces))
        keys = {key for trace in found for key in _keys(trace, by)}
        groups = [
            _summary(key, [trace for trace in found if key in _keys(trace, by)], by)
            for key in sorted(keys)
        ]
        return sorted(groups, key=lambda group: -group.total_tokens)


def _copied(record: AnyRecord) -> AnyRecord:
    """Return a validated copy of a record."""
    return type(record).model_validate(record)


def _page(
    records: list[AnyRecord], *, limit: int | None = None, after: str | None = None
) -> list[AnyRecord]:
    if after is not None:
        if after not in [record.id for record in records]:
            raise NotFoundError
        records = records[[record.id for record in records].index(after) + 1 :]
    return records if limit is None else records[:limit]


def _meets(trace: TurnTrace, where: TraceFilter) -> bool:
    conditions = [
        where.agent_id in (None, trace.agent_id),
        where.user_id in (None, trace.user_id),
        where.conversation_id in (None, trace.conversation_id),
        where.intent in (None, trace.detected_intent),
        where.started_from is None or where.started_from <= trace.started_at_ms,
        where.started_until is None or where.started_until > trace.started_at_ms,
        where.min_total_tokens is None or where.min_total_tokens <= trace.total_tokens,
        where.min_latency_ms is None or where.min_latency_ms <= trace.total_latency_ms,
        where.has_errors in (None, trace.errors != []),
        where.tool is None or any(_has(tool, where.tool) for tool in trace.tool_traces),
        where.llm_call is None or any(_has(call, where.llm_call) for call in trace.llm_calls),
    ]
    return all(conditions)


def _has(record: Any, wanted: dict[str, Any]) -> bool:
    held = {name: _json(getattr(record, name)) for name in wanted}
    return held == {name: _json(value) for name, value in wanted.items()}


def _json(value: Any) -> str:
    """Return JSON in which equal small numbers are equal, and differ from true and false."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = float(value)
    return json.dumps(value, sort_keys=True)


def _keys(trace: TurnTrace, by: str) -> set[str]:
    if by == "model":
        return {call.model for call in trace.llm_calls}
    if by == "day":
        started = datetime.fromtimestamp(trace.started_at_ms / 1000, timezone.utc)
        return {started.strftime("%Y-%m-%d")}
    return {trace.detected_intent if by == "intent" else getattr(trace, f"{by}_id")}


def _summary(key: str, traces: list[TurnTrace], by: str) -> UsageSummary:
    calls = [call for trace in traces for call in trace.llm_calls if call.model == key]
    if by == "model":
        tokens = [(c.prompt_tokens, c.completion_tokens, c.total_tokens) for c in calls]
        latencies = sorted(call.latency_ms for call in calls)
    else:
        tokens = [
            (t.total_prompt_tokens, t.total_completion_tokens, t.total_tokens) for t in traces
        ]
        latencies = sorted(trace.total_latency_ms for trace in traces)
    return UsageSummary(
        key=key,
        turns=len(traces),
        failed_turns=len([trace for trace in traces if trace.errors]),
        prompt_tokens=sum(prompt for prompt, _, _ in tokens),
        completion_tokens=sum(completion for _, completion, _ in tokens),
        total_tokens=sum(total for _, _, total in tokens),
        mean_latency_ms=math.fsum(latencies) / len(latencies),
        p50_latency_ms=latencies[math.ceil(len(latencies) * 0.50) - 1],
        p95_latency_ms=latencies[math.ceil(len(latencies) * 0.95) - 1],
        max_latency_ms=latencies[-1],
        total_energy_kwh=0 if by == "model" else sum(t.total_energy_kwh for t in traces),
        total_co2_g=0 if by == "model" else sum(t.total_co2_g for t in traces),
    )
