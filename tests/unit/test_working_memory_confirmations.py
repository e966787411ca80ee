from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import ActiveFlowState, PendingConfirmation
from jazzmine.records.turn import TurnCache
from tests.unit.memories import collecting, flow_of, in_flow, new_memory, question


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


def test_a_question_from_before_a_flow_stands_beside_it() -> None:
    memory = new_memory()
    memory.request_confirmation(question(flow_id=""))
    memory.start_flow(ActiveFlowState("f1", "booking", "flow"))
    assert memory.status is ConversationStatus.IN_FLOW

    memory.confirm_action()

    assert memory.pending_confirmation is None
    assert flow_of(memory).status is FlowStatus.ACTIVE


def test_a_second_question_replaces_the_first() -> None:
    memory = in_flow()
    memory.request_confirmation(question())

    memory.request_confirmation(PendingConfirmation("f1", "Really?", {}, 0))

    assert memory.pending_confirmation is not None
    assert memory.pending_confirmation.action_description == "Really?"
