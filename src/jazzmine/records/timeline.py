"""A turn for people: its calls on a timeline, its errors and its cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jazzmine.records.traces import LLMCallRecord, ToolTrace, TurnTrace


@dataclass(frozen=True)
class Step:
    """A call of a model or a tool, in ms since the start of the turn; None without a time.

    The start and the length of its bar, `left` and `width`, are in percent of the turn.
    """

    at_ms: int | None
    ms: int
    left: float
    width: float
    call: LLMCallRecord | None = None
    tool: ToolTrace | None = None


def timeline(trace: TurnTrace) -> list[Step]:
    """Return the calls of a turn by their start; calls without a time come last.

    A call of a tool without a time began when its task was emitted.
    """
    emitted = {task.task_index: task.timestamp_ms for task in trace.task_emissions}
    calls = [(call.timestamp_ms, call.latency_ms, call, None) for call in trace.llm_calls]
    tools = [(_began(tool, emitted), _tool_ms(tool), None, tool) for tool in trace.tool_traces]
    ends = [began + ms for began, ms, _, _ in (*calls, *tools) if began is not None]
    start = trace.started_at_ms
    span = max(1, trace.ended_at_ms - start, trace.total_latency_ms, *(end - start for end in ends))
    steps = []
    for began, ms, call, tool in (*calls, *tools):
        at = None if began is None else began - start
        left = min(max(0.0, 100 * (at or 0) / span), 100.0)
        width = min(max(0.0, 100 * ms / span), 100.0 - left) if at is not None else 0.0
        steps.append(Step(at, ms, round(left, 2), round(width, 2), call, tool))
    return sorted(steps, key=lambda step: (step.at_ms is None, step.at_ms or 0))


def _began(tool: ToolTrace, emitted: dict[int, int]) -> int | None:
    return emitted.get(tool.task_index) if tool.started_at_ms is None else tool.started_at_ms


def _tool_ms(tool: ToolTrace) -> int:
    return tool.total_latency_ms or tool.generation_latency_ms + tool.execution_latency_ms


def problems(trace: TurnTrace) -> list[str]:
    """Return the errors of a turn and, where it does not repeat them, of its calls."""
    calls = [(call.error or "a call of the model failed", call.success) for call in trace.llm_calls]
    tools = [
        (tool.error or f"{tool.tool_name or 'a tool'} failed", tool.success)
        for tool in trace.tool_traces
    ]
    errors = list(trace.errors)
    for error, success in (*calls, *tools):
        if not success and not any(error in known for known in errors):
            errors.append(error)
    return errors


def unreported(trace: TurnTrace) -> int:
    """Return the number of model calls without tokens of a prompt, as in `UsageSummary`."""
    return sum(call.prompt_tokens <= 0 for call in trace.llm_calls)


def unpriced(trace: TurnTrace) -> int:
    """Return the number of model calls without a cost."""
    return sum(call.cost_usd is None for call in trace.llm_calls)


def money(usd: float) -> str:
    """Return an amount of money: 12,345.67; with more digits if it is small."""
    if usd == 0 or abs(usd) >= 1:
        return f"{usd:,.2f}"
    digits = max(4, -math.floor(math.log10(abs(usd))))
    text = f"{usd:.{digits}f}".rstrip("0")
    return text + "0" * (2 - len(text.partition(".")[2]))


def at_least(text: str, value: float, missing: int) -> str:
    """Return a sum for people, with its unit after a space, that lacks some calls."""
    if not missing:
        return text
    number, space, unit = text.partition(" ")
    return f"{'≥ ' + number if value else '–'}{space}{unit}"
