from __future__ import annotations

import pytest
from pydantic import ValidationError

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import Slot
from jazzmine.records.turn import TurnCache
from tests.unit.memories import collecting, flow_of, in_flow, question


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
