"""Traces are found by their fields, newest first, page by page."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.core.message_store import MessageStore, TraceFilter
from tests.behaviour.samples import (
    ids,
    llm_call,
    tool_trace,
    trace,
)
from tests.behaviour.writes import store_traces


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


@pytest.mark.each_value
@pytest.mark.smoke
@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        (1, 1.0),
        (2.0, 2),
        (0.1, 0.1),
        (2**63 - 1, 2**63 - 1),
        (True, True),
        (None, None),
        ("", ""),
        ("é\U0001f686", "é\U0001f686"),
        ([1, [2.0, "x"]], [1.0, [2, "x"]]),
        ([], []),
        ({}, {}),
        ({"a": {"b": 1}, "c": None}, {"c": None, "a": {"b": 1.0}}),
        ({"$gt": 1}, {"$gt": 1}),
        ({"a.b": "c"}, {"a.b": "c"}),
    ],
    ids=repr,
)
async def test_a_trace_is_found_by_a_value_that_is_equal_in_json(
    chat: MessageStore, stored: Any, asked: Any
) -> None:
    await store_traces(chat, trace("m1", tool_traces=[tool_trace(final_data=stored)]))

    assert await found(chat, tool={"final_data": asked}) == ["m1"]


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        (1, True),
        (True, 1),
        (0, False),
        (False, 0.0),
        (None, False),
        (None, 0),
        (1, "1"),
        ("a", "A"),
        ("a", "a "),
        ("é", "e\u0301"),
        (2**63 - 1, 2**63 - 2),
        ([1, 2], [2, 1]),
        ([1, 2], [1]),
        ([1, 2], 1),
        ([True], [1]),
        ([], None),
        ([], {}),
        ({}, None),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": {"b": 1}}, {"a": {}}),
        ({"a": 1}, {"a": True}),
        ({"a": 5}, {"$gt": 1}),
        ({"a": 1}, {"a": {"$exists": True}}),
        ("abc", {"$regex": "a"}),
        ("abc", "a%"),
        ("abc", ".*"),
    ],
    ids=repr,
)
async def test_a_trace_is_not_found_by_a_value_that_is_another_in_json(
    chat: MessageStore, stored: Any, asked: Any
) -> None:
    await store_traces(chat, trace("m1", tool_traces=[tool_trace(final_data=stored)]))

    assert await found(chat, tool={"final_data": asked}) == []


@pytest.mark.parametrize("condition", ["tool", "llm_call"])
async def test_a_condition_on_a_field_that_does_not_exist_is_refused(condition: str) -> None:
    with pytest.raises(ValidationError, match=f"(?s){condition}.*no field 'sandbax'"):
        TraceFilter(**{condition: {"sandbax": "python"}})  # type: ignore[arg-type]


async def test_a_filter_that_became_wrong_is_refused_when_it_is_used(store: MessageStore) -> None:
    where = TraceFilter(tool={})
    assert where.tool is not None
    where.tool["final_data"] = object()

    with pytest.raises(ValidationError, match="tool"):
        await store.find_turn_traces(where)


@pytest.mark.parametrize("where", [None, {}, {"agent_id": "a1"}, "a1"], ids=repr)
async def test_something_else_than_a_filter_is_refused(store: MessageStore, where: Any) -> None:
    with pytest.raises(TypeError, match="expected a TraceFilter"):
        await store.find_turn_traces(where)
    with pytest.raises(TypeError, match="expected a TraceFilter"):
        await store.summarize_usage(where, by="agent")


async def test_a_hundred_traces_are_found_unless_more_are_asked_for(chat: MessageStore) -> None:
    names = [f"m{number:03}" for number in range(101)]
    await store_traces(chat, *(trace(name, started_at_ms=int(name[1:])) for name in names))

    assert len(await chat.find_turn_traces(TraceFilter())) == 100
    assert len(await chat.find_turn_traces(TraceFilter(), limit=101)) == 101
    assert len(await chat.get_turn_traces_by_agent_id("a1")) == 100
    assert ids(await chat.get_turn_traces_by_agent_id("a1", offset=100)) == ["trace-of-m000"]
