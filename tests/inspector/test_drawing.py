"""The numbers behind charts and timelines, and how text looks."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine import LLMCallRecord, TaskEmission, ToolTrace
from jazzmine.inspector import text
from jazzmine.inspector.charts import columns
from jazzmine.records.timeline import at_least, timeline
from jazzmine.records.usage import UsageSummary
from tests.behaviour.samples import NOW, trace


def used(key: str, tokens: int = 10, turns: int = 1) -> UsageSummary:
    zero = dict.fromkeys(("failed_turns", "prompt_tokens", "completion_tokens"), 0)
    times = dict.fromkeys(("p50_latency_ms", "p95_latency_ms", "max_latency_ms"), 0)
    return UsageSummary(
        key=key, turns=turns, total_tokens=tokens, mean_latency_ms=0, **zero, **times
    )


def test_days_without_usage_have_an_empty_column() -> None:
    chart = columns([used("2026-03-02", 30), used("2026-02-27", 60)])
    assert [(one["label"], one["tokens"]) for one in chart["columns"]] == [
        ("2026-02-27", 60),
        ("2026-02-28", 0),
        ("2026-03-01", 0),
        ("2026-03-02", 30),
    ]
    drawn = [(one["y"], one["height"]) for one in chart["columns"]]
    assert drawn[::3] == [(0, 100), (50, 50)]
    assert (chart["tokens"], chart["turns"], chart["most"]) == (90, 2, 60)


def test_a_long_time_has_a_column_for_each_month() -> None:
    chart = columns([used("0001-01-01"), used("2026-01-02", 5), used("2026-01-31", 6)])
    drawn = [(one["label"], one["tokens"]) for one in chart["columns"]]
    assert drawn == [("0001-01", 10), ("2026-01", 11)]


def test_a_timeline_is_in_the_order_of_time_and_within_its_turn() -> None:
    def call(at: int, ms: int) -> LLMCallRecord:
        return LLMCallRecord(purpose="other", model="m", timestamp_ms=NOW + at, latency_ms=ms)

    def tool(index: int) -> ToolTrace:
        return ToolTrace(
            task_index=index, sandbox="s", mode="plan", description="d", execution_latency_ms=100
        )

    emitted = TaskEmission(
        task_index=1, sandbox="s", mode="plan", description="d", timestamp_ms=NOW + 250
    )
    steps = timeline(
        trace(
            "m1",
            started_at_ms=NOW,
            ended_at_ms=NOW + 1_000,
            total_latency_ms=1_000,
            llm_calls=[call(500, 500), call(0, 250), call(-100, 50)],
            tool_traces=[tool(2), tool(1)],
            task_emissions=[emitted],
        )
    )
    assert [(one.at_ms, one.left, one.width) for one in steps] == [
        (-100, 0, 5),
        (0, 0, 25),
        (250, 25, 10),
        (500, 50, 50),
        (None, 0, 0),
    ]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("duration", 999, "999 ms"),
        ("duration", 1_500, "1.5 s"),
        ("duration", 125_000, "2 min 5 s"),
        ("compact", 9_500, "9,500"),
        ("compact", 12_345, "12.3k"),
        ("compact", 4_000_000, "4M"),
        ("when", NOW, "2023-11-14 22:13:20 UTC"),
        ("when", 2**62, f"{2**62} ms"),
        ("day_of", NOW - 11 * 86_400_000, "Friday, 3 November 2023"),
        ("visible", "a\x00\u202eb\n👩\u200d💻", "a\\x00\\u202eb\n👩\u200d💻"),
        ("visible", "a\r\nb\rc", "a\nb\\x0dc"),
        ("visible", "❤️\u200d🔥 می\u200cخواهم", "❤️\u200d🔥 می\u200cخواهم"),
        ("visible", "a\u200db é\u200c\u200cé \u200dé", "a\\u200db é\\u200c\\u200cé \\u200dé"),
        ("pretty", {"é": [1]}, '{\n  "é": [\n    1\n  ]\n}'),
        ("money", 12345.67, "12,345.67"),
        ("money", 9.05e-05, "0.00009"),
        ("money", 0.0, "0.00"),
        ("money", 0.3, "0.30"),
        ("money", 0.0125, "0.0125"),
        ("money", -2.5, "-2.50"),
        ("money", 1e-12, "0.000000000001"),
    ],
)
def test_values_look_so(name: str, value: Any, shown: str) -> None:
    assert getattr(text, name)(value) == shown


def test_a_sum_says_what_it_lacks() -> None:
    assert at_least("9 tokens", 9, 0) == "9 tokens"
    assert at_least("9 tokens", 9, 1) == "≥ 9 tokens"
    assert at_least("0", 0, 1) == "–"
