"""Filters for stored traces, and summaries of their usage."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from jazzmine.records.base import Record
from jazzmine.records.traces import LLMCallRecord, ToolTrace
from jazzmine.records.types import Id, Int64, JsonObject, Text

__all__ = ["TraceFilter", "UsageSummary"]

UsageKey = Literal["agent", "user", "conversation", "intent", "model", "day"]


class TraceFilter(Record):
    """A filter that matches the traces for which every given field holds.

    Attributes:
        agent_id: the agent that answered.
        user_id: the user of the turn.
        conversation_id: the conversation.
        intent: the turn's `detected_intent`.
        started_from: the earliest start of a turn, ms since the Unix epoch, included.
        started_until: the end of that range, not included.
        min_total_tokens: the turn took at least so many tokens.
        min_latency_ms: the turn took at least so many ms.
        has_errors: whether the trace's `errors` has any; every recorder puts the errors of failed
            calls there, too.
        tool: some element of `tool_traces` has all these fields with exactly these values.
        llm_call: some element of `llm_calls` has all these fields with exactly these values.
    """

    moments: ClassVar[tuple[str, ...]] = ("started_from", "started_until")

    agent_id: Id | None = None
    user_id: Id | None = None
    conversation_id: Id | None = None
    intent: Text | None = None
    started_from: Int64 | None = None
    started_until: Int64 | None = None
    min_total_tokens: Int64 | None = None
    min_latency_ms: Int64 | None = None
    has_errors: bool | None = None
    tool: JsonObject | None = None
    llm_call: JsonObject | None = None

    @field_validator("tool", "llm_call")
    @classmethod
    def _only_fields(cls, value: JsonObject | None, info: ValidationInfo) -> JsonObject | None:
        kind = ToolTrace if info.field_name == "tool" else LLMCallRecord
        for name in value or ():
            if name not in kind.model_fields:
                allowed = ", ".join(kind.model_fields)
                raise ValueError(f"{kind.__name__} has no field {name!r}; it has {allowed}")
        return value


class UsageSummary(Record):
    """The usage of one group of turns.

    If the groups are models, tokens, costs and latencies are sums over the calls of the model, the
    turns are the turns that called it, and energy and CO2 are 0.

    Attributes:
        key: the group: an agent's id, the name of a model, a day such as "2026-11-23" (UTC).
        turns: the number of turns of the group.
        failed_turns: the number of turns with any `errors`, as in `TraceFilter.has_errors`.
        prompt_tokens: the sum of the turns' `total_prompt_tokens`.
        completion_tokens: the sum of the turns' `total_completion_tokens`.
        total_tokens: the sum of the turns' `total_tokens`.
        cached_prompt_tokens: the sum over all model calls of the turns.
        cache_write_tokens: the sum over all model calls of the turns.
        reasoning_tokens: the sum over all model calls of the turns.
        cost_usd: the sum over all model calls of the turns whose cost is known, in US dollars.
        unreported_calls: the number of model calls without tokens of a prompt; the sums of tokens
            lack them.
        unpriced_calls: the number of model calls without `cost_usd`.
        mean_latency_ms: the mean of the turns' `total_latency_ms`.
        p50_latency_ms: their median, by nearest rank.
        p95_latency_ms: their 95th percentile, by nearest rank.
        max_latency_ms: the longest of them.
        total_energy_kwh: the sum of the turns' energy, in kWh.
        total_co2_g: the sum of the turns' CO2, in g.
    """

    key: Text
    turns: int
    failed_turns: int
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_prompt_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float = 0.0
    unreported_calls: int = 0
    unpriced_calls: int = 0
    mean_latency_ms: float
    p50_latency_ms: int
    p95_latency_ms: int
    max_latency_ms: int
    total_energy_kwh: float = Field(default=0.0)
    total_co2_g: float = Field(default=0.0)
