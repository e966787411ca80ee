from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import ActiveFlowState, FlowRecord, PendingConfirmation, Slot
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache
from tests.unit.memories import collecting, flow_of, in_flow, new_memory, question


def test_a_flow_still_in_progress_is_archived_as_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = in_flow()
    memory.request_confirmation(question())

    memory.start_flow(ActiveFlowState("f2", "weather", "flow"))

    assert [(flow.flow_id, flow.status) for flow in memory.flow_history] == [("f1", "cancelled")]
    assert memory.pending_confirmation is None
    assert flow_of(memory).flow_id == "f2"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "'booking' was still in progress when 'weather' started" in caplog.text


def test_a_flow_that_had_ended_in_place_is_archived_as_it_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = in_flow()
    flow_of(memory).status = FlowStatus.COMPLETED

    memory.start_flow(ActiveFlowState("f2", "weather", "flow"))

    assert [flow.status for flow in memory.flow_history] == ["completed"]
    assert caplog.records == []


def test_a_flow_made_invalid_in_place_is_refused_by_name() -> None:
    memory = in_flow()
    before = memory.to_dict()
    state = ActiveFlowState("f2", "weather", "flow")
    state.tools_required.append(7)  # type: ignore[arg-type]

    with pytest.raises(ValidationError, match=r"tools_required\.0"):
        memory.start_flow(state)

    assert memory.to_dict() == before


def test_a_completed_flow_is_archived_with_its_slots_and_summaries() -> None:
    memory = in_flow(started_at_turn=1)
    memory.begin_turn(TurnCache(2))
    memory.register_slots([Slot("day", "", "date"), Slot("name", "", "str", required=False)])
    memory.collect_slot("day", "Monday")
    memory.record_tool_call(ToolCallRecord("search", {}, result_summary="3 found"))
    memory.record_tool_call(ToolCallRecord("search", {}, success=False, result_summary="none"))
    memory.record_tool_call(ToolCallRecord("search", {}))
    memory.request_confirmation(question())

    applied = memory.complete_flow()

    assert applied is True
    assert memory.flow_history == [
        FlowRecord("f1", "booking", "flow", "completed", 1, 2, {"day": "Monday"}, ["3 found"])
    ]
    assert memory.active_flow is None
    assert memory.pending_confirmation is None
    assert memory.status is ConversationStatus.IDLE
    assert memory.flows_completed_names == ["booking"]


def test_a_failed_flow_is_archived_as_failed() -> None:
    memory = in_flow()

    memory.fail_flow()

    assert [flow.status for flow in memory.flow_history] == ["failed"]
    assert memory.active_flow is None


def test_a_step_s_result_is_kept_and_the_next_step_begins() -> None:
    memory = in_flow(total_steps=2)

    applied = memory.advance_sequential_step({"found": 3})

    assert applied is True
    assert flow_of(memory).step_results == [{"found": 3}]
    assert flow_of(memory).current_step == 1
    assert not flow_of(memory).is_sequential_complete
    assert memory.last_updated > 1.0


def test_a_branch_s_result_is_kept() -> None:
    memory = in_flow(branch_results={"branch_1": None, "branch_2": None})

    applied = memory.record_branch_result("branch_2", {"ok": True})

    assert applied is True
    assert flow_of(memory).branch_results == {"branch_1": None, "branch_2": {"ok": True}}
    assert flow_of(memory).completed_branches == 1
    assert not flow_of(memory).all_branches_done


def test_all_branches_are_done_once_each_has_a_result() -> None:
    memory = in_flow(branch_results={"branch_1": None, "branch_2": None})
    memory.record_branch_result("branch_2", {"ok": True})

    memory.record_branch_result("branch_1", False)

    assert flow_of(memory).all_branches_done


@pytest.mark.parametrize("wrong", [None, 1, {"$ne": 1}, ["branch_1"]])
def test_a_branch_id_must_be_a_string(wrong: Any) -> None:
    memory = in_flow(branch_results={"branch_1": None})

    with pytest.raises(ValidationError, match="branch_id"):
        memory.record_branch_result(wrong, {})


def test_the_branch_that_a_condition_led_to_is_kept() -> None:
    memory = in_flow(condition_expr="seats > 2")

    applied = memory.set_condition_branch("true")

    assert applied is True
    assert flow_of(memory).condition_branch_taken == "true"
    assert memory.last_updated > 1.0


def test_a_flow_that_is_started_twice_is_unchanged(caplog: pytest.LogCaptureFixture) -> None:
    memory = new_memory()
    flow = ActiveFlowState("f1", "booking", "flow", total_steps=2)
    memory.start_flow(flow)
    memory.advance_sequential_step({"found": 3})

    applied = memory.start_flow(flow)

    assert applied is False
    assert flow_of(memory).current_step == 1
    assert memory.flow_history == []
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_flow_that_is_started_again_later_is_another_one() -> None:
    memory = in_flow(started_at=1.0)
    memory.begin_turn(TurnCache(1))

    memory.start_flow(ActiveFlowState("f1", "booking", "flow", started_at=2.0))

    assert [flow.status for flow in memory.flow_history] == ["cancelled"]
    assert flow_of(memory).started_at == 2.0


@pytest.mark.parametrize("ending", ["complete_flow", "cancel_flow", "fail_flow"])
def test_a_flow_that_is_not_the_one_that_is_named_is_left_alone(ending: str) -> None:
    """A late yes for a booking that has ended does not end the next one."""
    memory = in_flow()
    memory.request_confirmation(question())

    assert getattr(memory, ending)("f0") is False
    assert memory.active_flow is not None
    assert memory.pending_confirmation is not None
    assert getattr(memory, ending)("f1") is True


def test_a_flow_that_is_set_aside_comes_back_with_its_slots_and_its_question() -> None:
    memory = collecting("day")
    memory.collect_slot("day", "Monday")
    memory.request_confirmation(question())

    memory.suspend_flow()
    assert memory.to_dict()["status"] == "idle"
    assert memory.pending_confirmation is None
    memory.start_flow(ActiveFlowState("f2", "hours", "flow"))
    memory.complete_flow("f2")

    assert flow_of(memory).collected_slot_values == {"day": "Monday"}
    assert memory.status is ConversationStatus.AWAITING_CONFIRMATION
    assert memory.confirm_action("q1") is True
    assert [(flow.flow_id, flow.status) for flow in memory.flow_history] == [("f2", "completed")]


def test_a_flow_that_is_set_aside_is_resumed_by_its_name() -> None:
    memory = new_memory()
    for number in range(3):
        memory.start_flow(ActiveFlowState(f"f{number}", "n", "flow"))
        memory.suspend_flow()

    assert memory.resume_flow("f7") is False
    assert memory.resume_flow("f0") is True
    assert flow_of(memory).flow_id == "f0"
    assert memory.resume_flow() is False  # one is in progress
    memory.complete_flow("f0")
    assert flow_of(memory).flow_id == "f2"
    assert [each.flow.flow_id for each in memory.suspended_flows] == ["f1"]


def test_ten_flows_at_most_are_set_aside() -> None:
    memory = new_memory()
    for number in range(12):
        memory.start_flow(ActiveFlowState(f"f{number}", "n", "flow"))
        memory.suspend_flow()

    assert [each.flow.flow_id for each in memory.suspended_flows] == [f"f{n}" for n in range(2, 12)]
    ended = [(flow.flow_id, flow.status) for flow in memory.flow_history]
    assert ended == [("f0", "cancelled"), ("f1", "cancelled")]


@pytest.mark.parametrize("other", [None, PendingConfirmation("", "Stop?", {}, 9, id="stop")])
def test_a_question_that_expired_while_its_flow_was_set_aside_is_asked_again(
    other: PendingConfirmation | None,
) -> None:
    """A yes to another question that is open is not a yes to it."""
    memory = in_flow()
    memory.request_confirmation(question())
    memory.suspend_flow()
    memory.begin_turn(TurnCache(9))
    if other is not None:
        memory.request_confirmation(other)

    memory.resume_flow()

    assert memory.pending_confirmation == other
    assert memory.status is ConversationStatus.IN_FLOW
