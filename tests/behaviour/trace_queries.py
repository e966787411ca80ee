"""Filter and sum up traces in Python, for the toy store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from typing import Any

from jazzmine.records.base import Record
from jazzmine.records.json_values import contains
from jazzmine.records.traces import LLMCallRecord, TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

_MS_A_DAY = 86_400_000
_EPOCH = date(1970, 1, 1)


def matches(where: TraceFilter, trace: TurnTrace) -> bool:
    """Return whether every condition of the filter holds for the trace."""
    return (
        (where.agent_id is None or trace.agent_id == where.agent_id)
        and (where.user_id is None or trace.user_id == where.user_id)
        and (where.conversation_id is None or trace.conversation_id == where.conversation_id)
        and (where.intent is None or trace.detected_intent == where.intent)
        and (where.started_from is None or trace.started_at_ms >= where.started_from)
        and (where.started_until is None or trace.started_at_ms < where.started_until)
        and (where.min_total_tokens is None or trace.total_tokens >= where.min_total_tokens)
        and (where.min_latency_ms is None or trace.total_latency_ms >= where.min_latency_ms)
        and (where.has_errors is None or bool(trace.errors) == where.has_errors)
        and (where.tool is None or _any_has(trace.tool_traces, where.tool))
        and (where.llm_call is None or _any_has(trace.llm_calls, where.llm_call))
    )


def _any_has(records: Iterable[Record], wanted: Mapping[str, Any]) -> bool:
    return any(contains(record.model_dump(mode="json"), wanted) for record in records)


class _Group:
    def __init__(self) -> None:
        self.turns: set[str] = set()
        self.failed_turns: set[str] = set()
        self.prompt_tokens = self.completion_tokens = self.total_tokens = 0
        self.cached_prompt_tokens = self.cache_write_tokens = self.reasoning_tokens = 0
        self.cost_usd = 0.0
        self.unreported_calls = self.unpriced_calls = 0
        self.latencies: list[int] = []
        self.energy_kwh = self.co2_g = 0.0

    def add_turn(self, trace: TurnTrace) -> None:
        self._count(trace)
        self.prompt_tokens += trace.total_prompt_tokens
        self.completion_tokens += trace.total_completion_tokens
        self.total_tokens += trace.total_tokens
        self.latencies.append(trace.total_latency_ms)
        self.energy_kwh += trace.total_energy_kwh
        self.co2_g += trace.total_co2_g
        for call in trace.llm_calls:
            self._add_details(call)

    def add_calls(self, trace: TurnTrace, model: str) -> None:
        self._count(trace)
        for call in trace.llm_calls:
            if call.model == model:
                self.prompt_tokens += call.prompt_tokens
                self.completion_tokens += call.completion_tokens
                self.total_tokens += call.total_tokens
                self.latencies.append(call.latency_ms)
                self._add_details(call)

    def _add_details(self, call: LLMCallRecord) -> None:
        self.cached_prompt_tokens += call.cached_prompt_tokens
        self.cache_write_tokens += call.cache_write_tokens
        self.reasoning_tokens += call.reasoning_tokens
        self.cost_usd += call.cost_usd or 0.0
        self.unreported_calls += call.prompt_tokens <= 0
        self.unpriced_calls += call.cost_usd is None

    def _count(self, trace: TurnTrace) -> None:
        self.turns.add(trace.id)
        if trace.errors:
            self.failed_turns.add(trace.id)

    def summary(self, key: str) -> UsageSummary:
        self.latencies.sort()
        return UsageSummary(
            key=key,
            turns=len(self.turns),
            failed_turns=len(self.failed_turns),
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            total_tokens=self.total_tokens,
            cached_prompt_tokens=self.cached_prompt_tokens,
            cache_write_tokens=self.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens,
            cost_usd=self.cost_usd,
            unreported_calls=self.unreported_calls,
            unpriced_calls=self.unpriced_calls,
            mean_latency_ms=sum(self.latencies) / len(self.latencies),
            p50_latency_ms=_nearest_rank(self.latencies, 50),
            p95_latency_ms=_nearest_rank(self.latencies, 95),
            max_latency_ms=self.latencies[-1],
            total_energy_kwh=self.energy_kwh,
            total_co2_g=self.co2_g,
        )


def summarize(traces: Iterable[TurnTrace], by: UsageKey) -> list[UsageSummary]:
    """Sum up the traces in groups, sorted by descending tokens, then by key."""
    groups: defaultdict[str, _Group] = defaultdict(_Group)
    for trace in traces:
        if by == "model":
            for model in {call.model for call in trace.llm_calls}:
                groups[model].add_calls(trace, model)
        else:
            groups[_KEYS[by](trace)].add_turn(trace)
    summaries = [group.summary(key) for key, group in groups.items()]
    return sorted(summaries, key=lambda summary: (-summary.total_tokens, summary.key))


def _nearest_rank(values: list[int], percent: int) -> int:
    return values[-(-percent * len(values) // 100) - 1]


def utc_day(ms: int) -> str:
    """Return the day of a time in UTC; the first or last one of the calendar if it is beyond."""
    try:
        return (_EPOCH + timedelta(days=ms // _MS_A_DAY)).isoformat()
    except OverflowError:
        return (date.min if ms < 0 else date.max).isoformat()


_KEYS: dict[str, Callable[[TurnTrace], str]] = {
    "agent": lambda trace: trace.agent_id,
    "user": lambda trace: trace.user_id,
    "conversation": lambda trace: trace.conversation_id,
    "intent": lambda trace: trace.detected_intent,
    "day": lambda trace: utc_day(trace.started_at_ms),
}
