from __future__ import annotations

import pytest

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import PendingConfirmation
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


def test_a_confirmation_makes_a_flow_with_pending_slots_active_too() -> None:
    memory = collecting("day")
    memory.request_confirmation(question())

    memory.confirm_action()

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
