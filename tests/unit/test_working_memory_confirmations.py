from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.records.flow import PendingConfirmation
from jazzmine.records.turn import TurnCache
from tests.unit.memories import in_flow


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
