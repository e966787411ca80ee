"""Traces are found by their fields, and summed up by every key."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine import TurnTrace
from jazzmine.core.message_store import MessageStore, TraceFilter, UsageSummary
from tests.behaviour.edge_values import DIFFERENT, EQUAL
from tests.behaviour.samples import (
    conversation,
    ids,
    llm_call,
    message,
    messages,
    tool_trace,
    trace,
)

DAY = 86_400_000


async def store_traces(store: MessageStore, *traces: TurnTrace) -> None:
    """Store traces one after another, each with its message and conversation."""
    for one in traces:
        owner = one.conversation_id
        await store.get_or_create_conversation(conversation(owner))
        said = message(one.message_id, conversation_id=owner)
        await store.store_turn(messages=[said], trace=one)


async def found(store: MessageStore, **conditions: Any) -> list[str]:
    """Return the ids of the messages whose traces match a filter."""
    traces = await store.find_turn_traces(TraceFilter(**conditions))
    return [one.message_id for one in traces]


# What differs in the traces of "m1", "m2" and so on, and which of them a filter finds.
CASES: dict[str, tuple[list[dict[str, Any]], list[tuple[dict[str, Any], str]]]] = {
    "a tool trace among several": (
        [
            {"tool_traces": [tool_trace(sandbox="shell"), tool_trace(sandbox="browser")]},
            {"tool_traces": [tool_trace(sandbox="python")]},
            {},
        ],
        [({"tool": {"sandbox": "browser"}}, "m1"), ({"tool": {}}, "m2 m1")],
    ),
    "a call among several": (
        [
            {"llm_calls": [llm_call(), llm_call(model="big", purpose="other")]},
            {"llm_calls": [llm_call(model="tiny")]},
            {},
        ],
        [({"llm_call": {"model": "big", "purpose": "other"}}, "m1"), ({"llm_call": {}}, "m2 m1")],
    ),
    "all values in one element": (
        [
            {
                "tool_traces": [
                    tool_trace(sandbox="python", success=False),
                    tool_trace(sandbox="shell", success=True),
                ]
            }
        ],
        [
            ({"tool": {"sandbox": "python", "success": True}}, ""),
            ({"tool": {"sandbox": "shell", "success": True}}, "m1"),
        ],
    ),
    "defaults": (
        [{"tool_traces": [tool_trace()]}, {"llm_calls": [llm_call()]}],
        [
            ({"tool": {"success": False}}, "m1"),
            ({"tool": {"error": None}}, "m1"),
            ({"tool": {"output_bytes": 0, "api_calls": []}}, "m1"),
            ({"llm_call": {"success": True, "error": None}}, "m2"),
        ],
    ),
}


@pytest.mark.each_value
@pytest.mark.parametrize(("traces", "filters"), CASES.values(), ids=CASES)
async def test_traces_are_found_by(
    chat: MessageStore, traces: list[dict[str, Any]], filters: list[tuple[dict[str, Any], str]]
) -> None:
    await store_traces(chat, *(trace(f"m{n}", **given) for n, given in enumerate(traces, 1)))

    for conditions, expected in filters:
        assert await found(chat, **conditions) == expected.split()


# Fields of a tool trace or a call


@pytest.mark.smoke
async def test_a_trace_is_found_by_a_value_that_is_equal_in_json(chat: MessageStore) -> None:
    for pairs, expected in ((EQUAL, ["m1"]), (DIFFERENT, [])):
        for stored, asked in pairs:
            await store_traces(chat, trace("m1", tool_traces=[tool_trace(final_data=stored)]))

            assert await found(chat, tool={"final_data": asked}) == expected, (stored, asked)


@pytest.mark.parametrize("condition", ["tool", "llm_call"])
async def test_a_condition_on_a_field_that_does_not_exist_is_refused(condition: str) -> None:
    with pytest.raises(ValidationError, match=f"(?s){condition}.*no field 'sandbax'"):
        TraceFilter(**{condition: {"sandbax": "python"}})  # type: ignore[arg-type]


@pytest.mark.parametrize("where", [None, {}, {"agent_id": "a1"}, "a1"], ids=repr)
async def test_something_else_than_a_filter_is_refused(store: MessageStore, where: Any) -> None:
    with pytest.raises(TypeError, match="expected a TraceFilter"):
        await store.find_turn_traces(where)
    with pytest.raises(TypeError, match="expected a TraceFilter"):
        await store.summarize_usage(where, by="agent")


async def test_a_hundred_traces_are_found_unless_more_are_asked_for(chat: MessageStore) -> None:
    names = [f"m{number:03}" for number in range(101)]
    await chat.store_messages(messages(*names))
    for name in names:
        await chat.store_turn_trace(trace(name, started_at_ms=int(name[1:])))

    assert len(await chat.find_turn_traces(TraceFilter())) == 100
    assert len(await chat.find_turn_traces(TraceFilter(), limit=101)) == 101
    assert len(await chat.get_turn_traces_by_agent_id("a1")) == 100
    assert ids(await chat.get_turn_traces_by_agent_id("a1", offset=100)) == ["trace-of-m000"]


# Sums


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
async def test_turns_are_grouped_by_the_day_in_utc(
    chat: MessageStore, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    await store_traces(
        chat,
        trace("m1", started_at_ms=-1, total_tokens=5),
        trace("m2", started_at_ms=0, total_tokens=4),
        trace("m3", started_at_ms=DAY - 1, total_tokens=4),
        trace("m4", started_at_ms=DAY, total_tokens=3),
        trace("m5", started_at_ms=1_709_251_199_999, total_tokens=2),
        trace("m6", started_at_ms=1_709_251_200_000, total_tokens=1),
    )

    found = await chat.summarize_usage(TraceFilter(), by="day")

    assert [(group.key, group.turns) for group in found] == [
        ("1970-01-01", 2),
        ("1969-12-31", 1),
        ("1970-01-02", 1),
        ("2024-02-29", 1),
        ("2024-03-01", 1),
    ]


async def test_groups_with_most_tokens_come_first_and_equal_ones_by_key(
    chat: MessageStore,
) -> None:
    await store_traces(
        chat,
        trace("m1", total_tokens=5, agent_id="a"),
        trace("m2", total_tokens=5, agent_id="é"),
        trace("m3", total_tokens=5, agent_id="B"),
        trace("m4", total_tokens=5, agent_id="\U0001f686"),
        trace("m5", total_tokens=5, agent_id="\uffee"),
        trace("m6", total_tokens=5, agent_id="a b"),
        trace("m7", total_tokens=5, agent_id="ab"),
        trace("m8", total_tokens=9, agent_id="z"),
        trace("m9", total_tokens=0, agent_id="0"),
    )

    found = await chat.summarize_usage(TraceFilter(), by="agent")

    in_order = ["z", "B", "a", "a b", "ab", "é", "\uffee", "\U0001f686", "0"]
    assert [group.key for group in found] == in_order


async def test_what_only_calls_have_is_summed_up_in_the_group_of_its_turn_or_model(
    chat: MessageStore,
) -> None:
    large = 2**61
    one = llm_call(cached_prompt_tokens=large, reasoning_tokens=1, cost_usd=0.5)
    other = llm_call(model="big", cached_prompt_tokens=large, cost_usd=0.25)
    await store_traces(
        chat,
        trace("m1", llm_calls=[one, other, one], agent_id="a"),
        trace("m2", llm_calls=[other], agent_id="b"),
        trace("m3", llm_calls=[llm_call(model="none")], agent_id="c"),
    )

    def details(group: UsageSummary) -> tuple[str, int, int, float]:
        cached = group.cached_prompt_tokens // large
        return group.key, cached, group.reasoning_tokens, group.cost_usd

    assert [details(group) for group in await chat.summarize_usage(TraceFilter(), by="agent")] == [
        ("a", 3, 2, 1.25),
        ("b", 1, 0, 0.25),
        ("c", 0, 0, 0.0),
    ]
    assert [details(group) for group in await chat.summarize_usage(TraceFilter(), by="model")] == [
        ("big", 2, 0, 0.5),
        ("none", 0, 0, 0.0),
        ("small", 2, 2, 1.0),
    ]


@pytest.mark.parametrize(
    "by", ["month", "", "agent_id", "AGENT", None, 1, ["agent"], {"$ne": 1}], ids=repr
)
async def test_usage_by_another_key_is_refused_with_the_possible_keys(
    store: MessageStore, by: Any
) -> None:
    with pytest.raises(ValueError, match="agent, user, conversation, intent, model, day"):
        await store.summarize_usage(TraceFilter(), by=by)
