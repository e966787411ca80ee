from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import ActiveFlowState, FlowRecord, PendingConfirmation, Slot
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache
from tests.unit.memories import (
    awaiting_confirmation,
    collecting,
    flow_of,
    in_flow,
    new_memory,
    question,
)


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

    flow_of(memory).status = FlowStatus.COMPLETED
    memory.start_flow(ActiveFlowState("f3", "news", "flow"))
    assert memory.flow_history[1].status == "completed"
    assert len(caplog.records) == 1


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


def test_a_flow_that_is_started_again_later_is_another_one() -> None:
    memory = in_flow(started_at=1.0)
    memory.begin_turn(TurnCache(1))

    memory.start_flow(ActiveFlowState("f1", "booking", "flow", started_at=2.0))

    assert [flow.status for flow in memory.flow_history] == ["cancelled"]
    assert flow_of(memory).started_at == 2.0


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


def test_a_question_of_no_flow_is_not_set_aside_with_one() -> None:
    memory = new_memory()
    memory.request_confirmation(question("of no flow"))
    memory.start_flow(ActiveFlowState("f1", "booking", "flow"))

    assert memory.suspend_flow()
    assert memory.pending_confirmation == question("of no flow")


@pytest.mark.parametrize("ending", ["complete_flow", "cancel_flow", "fail_flow"])
def test_a_flow_that_is_set_aside_ends_by_its_name(ending: str) -> None:
    memory = awaiting_confirmation()
    memory.suspend_flow()
    memory.start_flow(ActiveFlowState("f2", "n", "flow"))
    memory.request_confirmation(question("f2"))

    assert getattr(memory, ending)("f1") is True
    assert getattr(memory, ending)("f1") is False
    assert [flow.flow_id for flow in memory.flow_history] == ["f1"]
    assert flow_of(memory).flow_id == "f2"
    assert memory.pending_confirmation is not None
    memory.complete_flow()
    assert memory.active_flow is None


def test_ten_flows_at_most_are_set_aside() -> None:
    memory = new_memory()
    for number in range(12):
        memory.start_flow(ActiveFlowState(f"f{number}", "n", "flow"))
        memory.suspend_flow()

    assert [each.flow.flow_id for each in memory.suspended_flows] == [f"f{n}" for n in range(2, 12)]
    ended = [(flow.flow_id, flow.status) for flow in memory.flow_history]
    assert ended == [("f0", "cancelled"), ("f1", "cancelled")]


# Calls of tools


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


# Questions


@pytest.mark.parametrize(
    "limits", [{"timeout_turns": 2}, {"timeout_seconds": 60.0, "requested_at": 5.0}]
)
def test_an_expired_confirmation_cannot_be_confirmed(
    limits: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    memory = in_flow()
    memory.begin_turn(TurnCache(4))
    expired = PendingConfirmation("f1", "Book?", {}, 2, **limits)
    memory.request_confirmation(expired)
    before = memory.to_dict()

    applied = memory.confirm_action()

    assert applied is False
    assert memory.to_dict() == before
    assert "the confirmation has expired" in caplog.text


@pytest.mark.parametrize("limit", ["timeout_turns", "timeout_seconds"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_question_that_no_message_could_answer_is_refused(limit: str, value: int) -> None:
    limits: dict[str, Any] = {limit: value}
    with pytest.raises(ValidationError, match=limit):
        PendingConfirmation("f1", "Book?", {}, **limits)


def test_what_is_asked_without_a_number_is_of_this_turn() -> None:
    memory = in_flow()
    memory.begin_turn(TurnCache(9))

    memory.request_confirmation(PendingConfirmation("f1", "Book?", {}))

    assert memory.pending_confirmation is not None
    assert memory.pending_confirmation.requested_at_turn == 9
    assert memory.confirm_action() is True


# Slots


@pytest.mark.parametrize("one", [Slot("day", "", "date"), {"day": Slot("day", "", "date")}])
def test_what_is_no_list_of_slots_is_refused(one: object) -> None:
    with pytest.raises(TypeError, match=r"slots must be a list of Slot, not (Slot|dict)"):
        in_flow().register_slots(one)  # type: ignore[arg-type]


def test_a_value_that_is_refused_is_named() -> None:
    with pytest.raises(ValidationError, match=r"value\n +\['until'\]: .* of type set"):
        collecting("day").collect_slot("day", {"until": {"Monday"}})


def test_a_slot_that_is_known_stays_as_it_is() -> None:
    memory = collecting("day")
    memory.collect_slot("day", "Monday")

    memory.register_slots([Slot("day", "another", "str"), Slot("seats", "", "int")])

    assert flow_of(memory).slots["day"].value == "Monday"
    assert flow_of(memory).slots["day"].description == ""
    assert memory.status is ConversationStatus.COLLECTING_SLOTS


def test_registering_slots_does_not_end_the_wait_for_a_confirmation() -> None:
    memory = in_flow()
    memory.request_confirmation(question())

    memory.register_slots([Slot("day", "", "date")])

    assert flow_of(memory).status is FlowStatus.AWAITING_CONFIRMATION
    assert [slot.name for slot in memory.pending_slots] == ["day"]


def test_an_answer_is_kept_with_its_turn() -> None:
    memory = collecting("day", "seats")
    memory.begin_turn(TurnCache(4))

    applied = memory.collect_slot("day", "Monday")

    assert applied is True
    assert flow_of(memory).slots["day"] == Slot("day", "", "str", True, True, "Monday", 4)
    assert flow_of(memory).collected_slot_values == {"day": "Monday"}
    assert memory.status is ConversationStatus.COLLECTING_SLOTS


def test_an_invalid_correction_opens_the_slot_again() -> None:
    memory = collecting("day")
    memory.collect_slot("day", "Monday")

    memory.collect_slot("day", "someday", "not a date")

    assert [slot.name for slot in memory.pending_slots] == ["day"]
    assert flow_of(memory).slots["day"].value is None
    assert flow_of(memory).status is FlowStatus.COLLECTING_SLOTS
    assert memory.status is ConversationStatus.COLLECTING_SLOTS
