"""The size of a working memory does not grow with the number of turns."""

from __future__ import annotations

from typing import Any

from jazzmine.records.flow import ActiveFlowState, Slot
from jazzmine.records.memory_json import to_json
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache
from tests.unit.memories import new_memory


def test_a_long_conversation_stays_as_large_as_a_short_one() -> None:
    memory = new_memory()
    sizes = []

    for turn in range(1_000):
        raw: list[Any] = [
            {"name": f"article {turn}", "attributes": [f"seen in {turn}"]},
            {"name": "Ada"},
        ]
        memory.begin_turn(TurnCache(turn, is_continuation=False, raw_entities=raw))
        memory.start_flow(ActiveFlowState("f", "n", "flow", started_at_turn=turn, total_steps=1))
        memory.record_tool_call(ToolCallRecord("search", {}, ["x"] * 100, "found"))
        memory.advance_sequential_step({"found": 1})
        memory.complete_flow()
        memory.end_turn("Hello", "greet", "a summary")
        sizes.append(len(to_json(memory)))

    assert sizes[-1] <= 1.05 * sizes[99]


def test_the_records_of_ended_flows_have_a_limit_in_bytes() -> None:
    memory = new_memory()
    for number in range(60):
        memory.start_flow(ActiveFlowState(f"f{number}", "n", "flow"))
        memory.register_slots([Slot("file", "", "text")])
        memory.collect_slot("file", "x" * 50_000)
        memory.complete_flow()

    assert [flow.flow_id for flow in memory.flow_history] == [f"f{n}" for n in range(55, 60)]
    assert memory.flow_count == 60
    assert len(to_json(memory)) < 300_000
