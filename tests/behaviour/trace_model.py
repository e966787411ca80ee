"""What filters match, and sums of traces: parts of the model of a message store."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

from jazzmine import Conversation, TraceFilter, TurnTrace, UsageSummary


def meets(trace: TurnTrace, where: TraceFilter) -> bool:
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
    held = {name: json_text(getattr(record, name)) for name in wanted}
    return held == {name: json_text(value) for name, value in wanted.items()}


def json_text(value: Any) -> str:
    """Return JSON in which equal small numbers are equal, and differ from true and false."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = float(value)
    return json.dumps(value, sort_keys=True)


def keys_of(trace: TurnTrace, by: str) -> set[str]:
    if by == "model":
        return {call.model for call in trace.llm_calls}
    if by == "day":
        started = datetime.fromtimestamp(trace.started_at_ms / 1000, UTC)
        return {started.strftime("%Y-%m-%d")}
    return {trace.detected_intent if by == "intent" else getattr(trace, f"{by}_id")}


def summary_of(key: str, traces: list[TurnTrace], by: str) -> UsageSummary:
    calls = [call for trace in traces for call in trace.llm_calls]
    if by == "model":
        calls = [call for call in calls if call.model == key]
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
        cached_prompt_tokens=sum(call.cached_prompt_tokens for call in calls),
        cache_write_tokens=sum(call.cache_write_tokens for call in calls),
        reasoning_tokens=sum(call.reasoning_tokens for call in calls),
        cost_usd=sum(call.cost_usd for call in calls if call.cost_usd is not None),
        unreported_calls=sum(call.prompt_tokens <= 0 for call in calls),
        unpriced_calls=sum(call.cost_usd is None for call in calls),
        mean_latency_ms=math.fsum(latencies) / len(latencies),
        p50_latency_ms=latencies[math.ceil(len(latencies) * 0.50) - 1],
        p95_latency_ms=latencies[math.ceil(len(latencies) * 0.95) - 1],
        max_latency_ms=latencies[-1],
        total_energy_kwh=0 if by == "model" else sum(t.total_energy_kwh for t in traces),
        total_co2_g=0 if by == "model" else sum(t.total_co2_g for t in traces),
    )


def is_tagged(conversation: Conversation, where: dict[str, Any]) -> bool:
    held = {
        key: json_text(conversation.metadata[key]) for key in where if key in conversation.metadata
    }
    return held == {key: json_text(value) for key, value in where.items()}
