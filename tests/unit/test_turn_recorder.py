"""A `TurnRecorder` makes the messages and the trace of a turn."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from jazzmine import Message, TurnRecorder
from jazzmine.records import turn_recorder
from jazzmine.sync import Conversation, MessageStore, TraceFilter


def begun(**fields: Any) -> TurnRecorder:
    given = {"conversation_id": "c1", "user_id": "ada", "agent_id": "desk", **fields}
    return TurnRecorder(**given)


def lines(recorder: TurnRecorder) -> list[tuple[str, str]]:
    return [(one.role.value, one.original_content) for one in recorder.messages]


def test_a_turn_and_its_trace_are_stored_in_ten_lines(tmp_path: Path) -> None:
    with MessageStore.initialize(f"json:{tmp_path}/messages.json") as store:
        store.store_conversation(Conversation(id="c1", user_id="ada", agent_id="desk"))

        recorder = begun(turn_number=3)
        recorder.user("Where is my order?")
        with recorder.model_call("small-1", provider="openai") as model:
            model.usage(prompt_tokens=100, completion_tokens=20)
            model.usage(cost_usd=Decimal("0.5"))  # type: ignore[arg-type]
            model.usage(cost_usd=math.nan)
            model.usage(cost_usd=None)
        with recorder.tool_call("find_order", {"id": 4711}, call_id="call-1") as tool:
            tool.result({"state": "delivered"})
        with recorder.model_call("small-1", provider="openai") as model:
            model.usage(prompt_tokens=150, completion_tokens=10, cached_prompt_tokens=100)
        recorder.assistant("It was delivered.")
        store.store_turn(messages=recorder.messages, trace=recorder.trace)

        assert store.get_messages_by_conversation_id("c1") == recorder.messages
        [trace] = store.find_turn_traces(TraceFilter(tool={"tool_name": "find_order"}))
    assert trace == recorder.trace == recorder.trace
    assert trace.message_id == recorder.messages[-1].id
    assert (trace.turn_number, trace.agent_id, trace.user_id) == (3, "desk", "ada")
    assert (trace.total_prompt_tokens, trace.total_completion_tokens) == (250, 30)
    assert trace.total_tokens == 280
    assert [call.cost_usd for call in trace.llm_calls] == [0.5, None]
    assert trace.llm_calls[1].cached_prompt_tokens == 100
    assert {call.purpose for call in trace.llm_calls} == {"agent_loop"}
    assert trace.errors == []
    [tool_trace] = trace.tool_traces
    assert (tool_trace.call_id, tool_trace.success) == ("call-1", True)
    assert (tool_trace.arguments, tool_trace.final_data) == ({"id": 4711}, {"state": "delivered"})


def test_the_history_of_a_provider_can_be_made_from_the_messages() -> None:
    recorder = begun()
    recorder.user("Compare the two.")
    with recorder.model_call("small-1"):
        recorder.assistant("I look them up.")
    for number in (1, 2):
        with recorder.tool_call("look_up", {"id": number}, call_id=f"call-{number}") as call:
            call.result([number])
    with recorder.model_call("small-1"):
        pass
    with recorder.tool_call("compare", None, call_id="call-3") as call:
        call.result("equal")
    recorder.assistant("They are equal.")

    assert lines(recorder) == [
        ("user", "Compare the two."),
        ("assistant", "I look them up."),
        ("tool", "[1]"),
        ("tool", "[2]"),
        ("assistant", ""),
        ("tool", "equal"),
        ("assistant", "They are equal."),
    ]
    _, first, answer, _, silent, _, last = recorder.messages
    assert first.metadata["tool_calls"] == [
        {"id": "call-1", "name": "look_up", "arguments": {"id": 1}},
        {"id": "call-2", "name": "look_up", "arguments": {"id": 2}},
    ]
    assert first.invoked_tools == ["look_up", "look_up"]
    assert answer.metadata == {"tool_call_id": "call-1", "tool_name": "look_up"}
    assert answer.invoked_tools == ["look_up"]
    assert [one["name"] for one in silent.metadata["tool_calls"]] == ["compare"]
    assert last.metadata == {}


def test_the_trace_of_a_turn_without_an_answer_belongs_to_the_question() -> None:
    recorder = begun()
    recorder.error(ValueError())
    with pytest.raises(ValueError, match=r"record one with user\(\) or assistant\(\)"):
        _ = recorder.trace
    question = recorder.user("Hello")

    assert recorder.trace.message_id == question.id
    assert recorder.trace.errors == ["ValueError"]


def test_an_error_that_ends_a_call_and_the_turn_is_noted_once() -> None:
    recorder = begun()
    recorder.user("Any tea?")
    for error in (OSError("no network"), OSError("no space")):
        with suppress(OSError), recorder.model_call("small-1"):
            raise error
    recorder.error(OSError("no space"))
    recorder.error(OSError("space"))

    errors = ["small-1: OSError: no network", "small-1: OSError: no space", "OSError: space"]
    assert recorder.trace.errors == errors


def test_what_a_program_hands_over_is_never_refused() -> None:
    recorder = begun()
    recorder.user("half \ud83d", metadata={"when": {1, 2}})
    with recorder.model_call("m \ud800", input={"temperature": math.nan}) as model:
        model.output({"stop": b"\xff"})
    with recorder.tool_call("look_up", {"limit": math.inf, "id": 2**70}) as call:
        call.result(datetime(2026, 11, 26, tzinfo=UTC))
    recorder.assistant("half \ud83d").metadata["changed"] = {3}
    call.record.api_calls.append({"sent": math.nan})
    recorder.metadata["seen"] = {1}

    question, asked, answer, said = recorder.messages
    assert (question.original_content, question.metadata) == ("half \ufffd", {"when": [1, 2]})
    [request] = asked.metadata["tool_calls"]
    assert request["arguments"] == {"limit": "inf", "id": str(2**70)}
    assert answer.original_content == "2026-11-26T00:00:00Z"
    assert (answer.errors, said.metadata) == (None, {"changed": [3]})
    trace = recorder.trace
    assert trace.llm_calls[0].input == {"temperature": "nan"}
    assert (trace.errors, trace.metadata) == ([], {"seen": [1]})
    assert trace.tool_traces[0].api_calls == [{"sent": "nan"}]


def test_every_value_of_a_turn_is_cut_and_the_whole_trace_is_below_what_stores_hold() -> None:
    recorder = begun()
    recorder.user("x" * 10**6)
    for _ in range(30):
        with recorder.model_call("m", input=["x" * 10**6]) as model:
            model.output("x" * 10**6)
        with recorder.tool_call("look_up", {"text": "x" * 10**6}) as call:
            call.error("x" * 10**6)
    recorder.assistant("done")

    records = [*recorder.messages, recorder.trace]
    assert all(len(record.model_dump_json()) < 2_100_000 for record in records)
    answers = [one.original_content for one in recorder.messages if one.role.value == "tool"]
    assert {len(text) for text in answers} == {50_000}
    assert answers[0].endswith("characters cut]")
    assert len(recorder.trace.llm_calls) == len(recorder.trace.tool_traces) == 30


def test_a_trace_of_more_calls_than_fit_has_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_recorder, "_MAX_RECORD", 10_000)
    recorder = begun()
    recorder.user("Read it all.")
    for _ in range(60):
        with recorder.model_call("m", input="x" * 300) as model:
            model.usage(prompt_tokens=1)

    trace = recorder.trace_of("m1")
    assert (trace.total_prompt_tokens, len(trace.llm_calls)) == (60, 60)
    assert trace.llm_calls[0].input.endswith("characters cut]")


@pytest.mark.parametrize(
    ("calls", "tokens"),
    [
        ([{}], (0, 0, 0)),
        (
            [{"prompt_tokens": 1800, "completion_tokens": None}, {"completion_tokens": 30}],
            (1800, 30, 1830),
        ),
        (
            [{"prompt_tokens": 900, "completion_tokens": 1}, {"completion_tokens": 30}],
            (900, 30, 930),
        ),
        ([{"prompt_tokens": "5", "completion_tokens": 2.0}], (5, 2, 7)),
        ([{"prompt_tokens": "many", "completion_tokens": -1, "total_tokens": math.nan}], (0, 0, 0)),
        ([{"total_tokens": 500}, {"completion_tokens": 30}], (0, 30, 500)),
        ([{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 18}], (10, 5, 18)),
        ([{"prompt_tokens": 2**70, "cached_prompt_tokens": object()}], (0, 0, 0)),
        ([{"prompt_tokens": 2**63 - 1, "completion_tokens": 1}], (2**63 - 1, 1, 2**63 - 1)),
    ],
)
def test_usage_takes_what_is_given(calls: list[dict[str, Any]], tokens: tuple[int, ...]) -> None:
    recorder = begun()
    recorder.user("Hello")
    with recorder.model_call("m") as call:
        for usage in calls:
            call.usage(**usage)

    trace = recorder.trace
    totals = (trace.total_prompt_tokens, trace.total_completion_tokens, trace.total_tokens)
    assert totals == tokens
    assert trace.errors == []


def test_the_trace_says_what_the_question_says_of_the_turn() -> None:
    recorder = begun()
    recorder.user("Stop!", intent="cancel", is_cancellation=True, sentiment_score=-0.5)
    recorder.assistant("I stop.")
    trace = recorder.trace
    assert (trace.detected_intent, trace.is_cancellation, trace.sentiment_score) == (
        "cancel",
        True,
        -0.5,
    )


def is_ordered(messages: list[Message]) -> bool:
    times = [message.timestamp for message in messages]
    return times == sorted(times)


async def test_tools_that_tasks_call_at_once_answer_in_the_order_of_the_calls() -> None:
    recorder = begun()
    recorder.user("Compare the three.")

    async def look_up(number: int, seconds: float) -> None:
        with recorder.tool_call("look_up", number) as call:
            await asyncio.sleep(seconds)
            with recorder.model_call("small-1", purpose="summary"):
                call.result(number)

    await asyncio.gather(look_up(1, 0.03), look_up(2, 0.02), look_up(3, 0.01))
    recorder.assistant("Done.")

    assert [text for _, text in lines(recorder)] == [
        "Compare the three.",
        "",
        "1",
        "2",
        "3",
        "Done.",
    ]
    assert is_ordered(recorder.messages)
    trace = recorder.trace
    assert [call.arguments for call in trace.tool_traces] == [1, 2, 3]
    assert [call.total_latency_ms >= 5 for call in trace.tool_traces] == [True, True, True]
    assert trace.total_latency_ms < sum(call.total_latency_ms for call in trace.tool_traces)


async def test_a_cancelled_call_is_noted_and_those_that_still_run_are_left_out() -> None:
    recorder = begun()
    recorder.user("Look it up.")

    async def look_up(name: str) -> None:
        with recorder.tool_call(name):
            await asyncio.sleep(60)

    slow, cancelled = (asyncio.ensure_future(look_up(name)) for name in ("slow", "cancelled"))
    await asyncio.sleep(0)
    assert lines(recorder) == [("user", "Look it up.")]
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)

    assert lines(recorder)[1:] == [("assistant", ""), ("tool", "CancelledError")]
    assert [call.tool_name for call in recorder.trace.tool_traces] == ["cancelled"]
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    assert [call.tool_name for call in recorder.trace.tool_traces] == ["slow", "cancelled"]


def test_threads_may_call_tools_at_once() -> None:
    recorder = begun()
    recorder.user("Compare them all.")
    barrier = threading.Barrier(8)

    def look_up(number: int) -> None:
        barrier.wait(timeout=10)
        for turn in range(50):
            with recorder.tool_call("look_up", [number, turn]) as call:
                call.result([number, turn])

    threads = [threading.Thread(target=look_up, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)

    messages = recorder.messages
    assert len(messages) == 2 + 400
    assert len(messages[1].metadata["tool_calls"]) == 400
    assert len({message.id for message in messages}) == 402
    assert is_ordered(messages)
    assert all(call.arguments == call.final_data for call in recorder.trace.tool_traces)


def test_a_clock_that_is_set_back_changes_no_time_of_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder = begun()
    recorder.user("Hello")
    monkeypatch.setattr(turn_recorder, "time_ns", lambda: 0)
    with recorder.model_call("small-1"):
        time.sleep(0.02)
    recorder.assistant("Hello")

    trace = recorder.trace
    [call] = trace.llm_calls
    assert 20 <= call.latency_ms <= trace.total_latency_ms
    assert trace.started_at_ms <= call.timestamp_ms <= trace.ended_at_ms
    assert trace.ended_at_ms - trace.started_at_ms == trace.total_latency_ms
    assert is_ordered(recorder.messages)
    assert abs(trace.started_at_ms / 1000 - time.time()) < 60
