from __future__ import annotations

import pytest
from pydantic import ValidationError

from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache
from tests.unit.memories import flow_of, in_flow, new_memory


def test_tool_calls_are_numbered_within_the_turn() -> None:
    memory = in_flow()
    memory.begin_turn(TurnCache(3))

    memory.record_tool_call(ToolCallRecord("first", {}, call_index=9))
    memory.record_tool_call(ToolCallRecord("second", {}, call_index=9))

    assert memory.current_turn is not None
    calls = [(call.tool_name, call.call_index) for call in memory.current_turn.tool_calls]
    assert calls == [("first", 0), ("second", 1)]
    assert flow_of(memory).tool_call_history == memory.current_turn.tool_calls


def test_numbering_starts_again_with_the_next_turn() -> None:
    memory = in_flow()
    memory.begin_turn(TurnCache(1))
    memory.record_tool_call(ToolCallRecord("first", {}))
    memory.begin_turn(TurnCache(2))

    memory.record_tool_call(ToolCallRecord("second", {}))

    history = flow_of(memory).tool_call_history
    assert [(call.turn_number, call.call_index) for call in history] == [(1, 0), (2, 0)]


def test_a_call_without_a_turn_number_gets_the_current_one() -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(3))

    memory.record_tool_call(ToolCallRecord("search", {}))

    assert memory.last_tool_result is not None
    assert memory.last_tool_result.turn_number == 3


def test_a_call_keeps_the_turn_number_that_it_came_with() -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(3))

    memory.record_tool_call(ToolCallRecord("search", {}, turn_number=2))

    assert memory.last_tool_result is not None
    assert memory.last_tool_result.turn_number == 2


def test_the_caller_s_record_stays_as_it_is() -> None:
    memory = in_flow()
    memory.begin_turn(TurnCache(3))
    memory.record_tool_call(ToolCallRecord("search", {}))
    record = ToolCallRecord("search", {"tags": ["a"]}, called_at=5.0)

    memory.record_tool_call(record)
    record.arguments["tags"].append("b")

    assert record == ToolCallRecord("search", {"tags": ["a", "b"]}, called_at=5.0)
    assert memory.last_tool_result is not None
    assert memory.last_tool_result.arguments == {"tags": ["a"]}


def test_the_turn_s_copy_and_the_flow_s_copy_are_two() -> None:
    memory = in_flow()
    memory.begin_turn(TurnCache(3))
    memory.record_tool_call(ToolCallRecord("search", {"tags": ["a"]}))

    flow_of(memory).tool_call_history[0].arguments["tags"].append("b")

    assert memory.last_tool_result is not None
    assert memory.last_tool_result.arguments == {"tags": ["a"]}


def test_outside_of_a_turn_a_call_is_kept_in_the_flow_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = in_flow()

    applied = memory.record_tool_call(ToolCallRecord("search", {}))

    assert applied is True
    assert [call.tool_name for call in flow_of(memory).tool_call_history] == ["search"]
    assert memory.last_tool_result == flow_of(memory).tool_call_history[0]
    assert caplog.messages == ["'conversation': a tool call was recorded outside of a turn"]


def test_a_call_without_a_flow_is_kept_in_the_turn_alone() -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(1))

    memory.record_tool_call(ToolCallRecord("search", {}, success=False))

    assert memory.current_turn is not None
    assert memory.current_turn.has_failed_tool_call
    assert memory.active_flow is None


def test_a_call_that_is_no_record_is_refused() -> None:
    memory = in_flow()
    before = memory.to_dict()

    with pytest.raises(TypeError, match="record must be of type ToolCallRecord"):
        memory.record_tool_call({"tool_name": "search"})  # type: ignore[arg-type]

    assert memory.to_dict() == before


def test_a_call_with_a_live_object_put_into_it_is_refused() -> None:
    memory = in_flow()
    before = memory.to_dict()
    record = ToolCallRecord("search", {})
    record.arguments["connection"] = object()

    with pytest.raises(ValidationError, match="arguments"):
        memory.record_tool_call(record)

    assert memory.to_dict() == before
