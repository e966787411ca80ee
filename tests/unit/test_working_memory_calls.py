from __future__ import annotations

import pytest

from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache
from tests.unit.memories import flow_of, in_flow, new_memory


def test_a_call_keeps_the_turn_number_that_it_came_with() -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(3))

    memory.record_tool_call(ToolCallRecord("search", {}, turn_number=2))

    assert memory.last_tool_result is not None
    assert memory.last_tool_result.turn_number == 2


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
