from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import ActiveFlowState, PendingConfirmation
from jazzmine.records.turn import TurnCache
from tests.unit.memories import collecting, flow_of, in_flow, new_memory, question


def test_a_flow_waits_for_the_confirmation_that_it_asked_for() -> None:
    memory = in_flow()

    applied = memory.request_confirmation(question())

    assert applied is True
    assert memory.pending_confirmation == question()
    assert flow_of(memory).status is FlowStatus.AWAITING_CONFIRMATION
    assert memory.status is ConversationStatus.AWAITING_CONFIRMATION
    assert not memory.current_flow_can_be_interrupted


def test_a_confirmation_makes_the_flow_active_again() -> None:
    memory = in_flow()
    memory.request_confirmation(question())

    applied = memory.confirm_action()

    assert applied is True
    assert not memory.has_pending_confirmation
    assert flow_of(memory).status is FlowStatus.ACTIVE
    assert memory.status is ConversationStatus.IN_FLOW


def test_a_confirmed_flow_with_a_pending_slot_collects_it() -> None:
    memory = collecting("day")
    memory.request_confirmation(question())

    memory.confirm_action()

    assert flow_of(memory).status is FlowStatus.COLLECTING_SLOTS
    assert memory.status is ConversationStatus.COLLECTING_SLOTS


def test_a_slot_that_became_invalid_while_the_flow_waited_is_collected_again() -> None:
    memory = collecting("day")
    memory.collect_slot("day", "Monday")
    memory.request_confirmation(question())
    memory.collect_slot("day", None, "closed on Mondays")

    assert memory.pending_confirmation is None
    assert flow_of(memory).status is FlowStatus.COLLECTING_SLOTS
    assert memory.pending_slots[0].validation_error == "closed on Mondays"


@pytest.mark.parametrize("limits", [{"timeout_turns": 2}, {"timeout_seconds": 0.0}])
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


def test_the_next_turn_ends_the_flow_of_an_expired_confirmation() -> None:
    memory = in_flow()
    memory.request_confirmation(PendingConfirmation("f1", "Book?", {}, 0, timeout_turns=1))

    memory.begin_turn(TurnCache(1))

    assert memory.pending_confirmation is None
    assert [flow.status for flow in memory.flow_history] == ["expired"]


@pytest.mark.parametrize("turns", [0, -1])
def test_a_question_that_no_message_could_answer_is_refused(turns: int) -> None:
    with pytest.raises(ValidationError, match="timeout_turns"):
        PendingConfirmation("f1", "Book?", {}, 0, timeout_turns=turns)


def test_a_yes_to_another_question_confirms_nothing() -> None:
    """The user said yes to 10, and by then 1000 was asked."""
    memory = in_flow()
    memory.request_confirmation(PendingConfirmation("f1", "Pay 10?", {"sum": 10}, 0, id="q10"))
    memory.request_confirmation(
        PendingConfirmation("f1", "Pay 1000?", {"sum": 1000}, 0, id="q1000")
    )

    assert memory.confirm_action("q10") is False
    assert memory.pending_confirmation is not None
    assert memory.confirm_action("q1000") is True
    assert memory.confirm_action("q1000") is False


@pytest.mark.parametrize("change", [("collect_slot", "day", "Tuesday"), ("clear_slot", "day")])
def test_a_slot_that_changes_closes_the_question(change: tuple[str, ...]) -> None:
    memory = collecting("day")
    memory.collect_slot("day", "Monday")
    memory.request_confirmation(question())
    memory.collect_slot("day", "Monday")
    assert memory.pending_confirmation is not None

    getattr(memory, change[0])(*change[1:])

    assert memory.pending_confirmation is None
    assert memory.confirm_action() is False


def test_a_confirmation_outside_of_a_flow_can_be_declined() -> None:
    memory = new_memory()
    memory.request_confirmation(question(flow_id=""))

    applied = memory.cancel_flow()

    assert applied is True
    assert memory.pending_confirmation is None
    assert memory.status is ConversationStatus.IDLE
    assert memory.flow_history == []


def test_a_cancellation_declines_a_confirmation_outside_of_a_flow() -> None:
    memory = new_memory()
    memory.request_confirmation(question(flow_id=""))

    memory.begin_turn(TurnCache(1, is_cancellation=True))

    assert memory.pending_confirmation is None
    assert memory.status is ConversationStatus.IDLE


@pytest.mark.parametrize("ending", ["complete_flow", "fail_flow"])
def test_a_confirmation_outside_of_a_flow_is_neither_completed_nor_failed(ending: str) -> None:
    memory = new_memory()
    memory.request_confirmation(question(flow_id=""))

    applied = getattr(memory, ending)()

    assert applied is False
    assert memory.has_pending_confirmation


def test_a_question_from_before_a_flow_stands_beside_it() -> None:
    memory = new_memory()
    memory.request_confirmation(question(flow_id=""))
    memory.start_flow(ActiveFlowState("f1", "booking", "flow"))
    assert memory.status is ConversationStatus.IN_FLOW

    memory.confirm_action()

    assert memory.pending_confirmation is None
    assert flow_of(memory).status is FlowStatus.ACTIVE


def test_outside_of_a_flow_the_conversation_awaits_the_confirmation() -> None:
    memory = new_memory()

    memory.request_confirmation(question(flow_id=""))

    assert memory.has_pending_confirmation
    assert memory.status is ConversationStatus.AWAITING_CONFIRMATION
    assert not memory.is_in_flow


def test_outside_of_a_flow_a_confirmation_leaves_the_conversation_idle() -> None:
    memory = new_memory()
    memory.request_confirmation(question(flow_id=""))

    applied = memory.confirm_action()

    assert applied is True
    assert memory.pending_confirmation is None
    assert memory.status is ConversationStatus.IDLE


def test_a_second_question_replaces_the_first() -> None:
    memory = in_flow()
    memory.request_confirmation(question())

    memory.request_confirmation(PendingConfirmation("f1", "Really?", {}, 0))

    assert memory.pending_confirmation is not None
    assert memory.pending_confirmation.action_description == "Really?"


def test_there_may_be_nothing_to_confirm_in_a_flow(caplog: pytest.LogCaptureFixture) -> None:
    memory = collecting("day")
    before = memory.to_dict()

    applied = memory.confirm_action()

    assert applied is False
    assert memory.to_dict() == before
    assert "nothing to confirm" in caplog.text


def test_a_question_is_copied_in() -> None:
    memory = in_flow()
    asked = question()

    memory.request_confirmation(asked)
    asked.action_payload["seats"] = 9

    assert memory.pending_confirmation == question()


def test_a_question_that_is_no_record_is_refused() -> None:
    memory = in_flow()
    before = memory.to_dict()

    with pytest.raises(TypeError, match="confirmation must be of type PendingConfirmation"):
        memory.request_confirmation("Sure?")  # type: ignore[arg-type]

    assert memory.to_dict() == before


@pytest.mark.parametrize("end", ["complete_flow", "fail_flow"])
def test_a_question_that_belongs_to_no_flow_outlives_one(end: str) -> None:
    memory = new_memory()
    question = PendingConfirmation("", "share the log?", {}, 0)
    memory.request_confirmation(question)
    memory.start_flow(ActiveFlowState("f", "order", "flow"))

    getattr(memory, end)()

    assert memory.pending_confirmation == question
    assert memory.status is ConversationStatus.AWAITING_CONFIRMATION


@pytest.mark.parametrize("end", ["complete_flow", "fail_flow", "cancel_flow"])
def test_the_question_that_a_flow_waits_for_ends_with_it(end: str) -> None:
    memory = new_memory()
    memory.start_flow(ActiveFlowState("f", "order", "flow"))
    memory.request_confirmation(PendingConfirmation("", "sure?", {}, 0))

    getattr(memory, end)()

    assert memory.pending_confirmation is None
    assert memory.status is ConversationStatus.IDLE


def test_cancelling_a_flow_drops_a_question_that_belongs_to_none() -> None:
    memory = new_memory()
    memory.request_confirmation(PendingConfirmation("", "share the log?", {}, 0))
    memory.start_flow(ActiveFlowState("f", "order", "flow"))

    memory.cancel_flow()

    assert memory.pending_confirmation is None
    assert [flow.status for flow in memory.flow_history] == ["cancelled"]
