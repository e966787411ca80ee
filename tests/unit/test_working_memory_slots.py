from __future__ import annotations

import pytest
from pydantic import ValidationError

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import Slot
from jazzmine.records.turn import TurnCache
from tests.unit.memories import collecting, flow_of, in_flow, question


def test_registered_slots_make_an_active_flow_collect_them() -> None:
    memory = in_flow()

    applied = memory.register_slots([Slot("day", "", "date"), Slot("seats", "", "int")])

    assert applied is True
    assert [slot.name for slot in memory.pending_slots] == ["day", "seats"]
    assert flow_of(memory).status is FlowStatus.COLLECTING_SLOTS
    assert memory.status is ConversationStatus.COLLECTING_SLOTS
    assert memory.current_flow_can_be_interrupted


@pytest.mark.parametrize("one", [Slot("day", "", "date"), {"day": Slot("day", "", "date")}])
def test_what_is_no_list_of_slots_is_refused(one: object) -> None:
    with pytest.raises(TypeError, match=r"slots must be a list of Slot, not (Slot|dict)"):
        in_flow().register_slots(one)  # type: ignore[arg-type]


def test_a_value_that_is_refused_is_named_with_its_slot() -> None:
    with pytest.raises(ValidationError, match=r"slot 'day'\nvalue\n +\['until'\]: .* of type set"):
        collecting("day").collect_slot("day", {"until": {"Monday"}})


def test_a_slot_that_is_known_stays_as_it_is() -> None:
    memory = collecting("day")
    memory.collect_slot("day", "Monday")

    memory.register_slots([Slot("day", "another", "str"), Slot("seats", "", "int")])

    assert flow_of(memory).slots["day"].value == "Monday"
    assert flow_of(memory).slots["day"].description == ""
    assert memory.status is ConversationStatus.COLLECTING_SLOTS


def test_of_two_slots_with_one_name_the_first_is_kept() -> None:
    memory = in_flow()

    memory.register_slots([Slot("day", "first", "date"), Slot("day", "second", "date")])

    assert flow_of(memory).slots["day"].description == "first"


def test_registering_only_known_slots_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = collecting("day")
    before = memory.to_dict()

    applied = memory.register_slots([Slot("day", "", "date")])

    assert applied is False
    assert memory.to_dict() == before
    assert caplog.records == []


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


def test_an_invalid_answer_leaves_the_slot_pending_with_the_error() -> None:
    memory = collecting("day")

    applied = memory.collect_slot("day", "someday", "not a date")

    slot = flow_of(memory).slots["day"]
    assert applied is True
    assert (slot.collected, slot.value, slot.validation_error) == (False, None, "not a date")
    assert memory.status is ConversationStatus.COLLECTING_SLOTS


def test_a_valid_answer_clears_the_error() -> None:
    memory = collecting("day")
    memory.collect_slot("day", "someday", "not a date")

    memory.collect_slot("day", "Monday")

    assert flow_of(memory).slots["day"].validation_error == ""


def test_an_invalid_correction_opens_the_slot_again() -> None:
    memory = collecting("day")
    memory.collect_slot("day", "Monday")

    memory.collect_slot("day", "someday", "not a date")

    assert [slot.name for slot in memory.pending_slots] == ["day"]
    assert flow_of(memory).slots["day"].value is None
    assert flow_of(memory).status is FlowStatus.COLLECTING_SLOTS
    assert memory.status is ConversationStatus.COLLECTING_SLOTS


def test_a_slot_that_is_cleared_is_open_again() -> None:
    memory = collecting("day")
    memory.collect_slot("day", "Monday")

    assert memory.clear_slot("day") is True
    assert memory.clear_slot("seats") is False

    assert [slot.name for slot in memory.pending_slots] == ["day"]
    assert flow_of(memory).collected_slot_values == {}


def test_slots_are_replaced_and_keep_the_values_of_known_names() -> None:
    """A deployment has changed, added and removed slots."""
    memory = collecting("day", "seats")
    memory.collect_slot("day", "Monday")

    memory.register_slots(
        [Slot("day", "Which day?", "date"), Slot("name", "", "str")], replace=True
    )

    slots = flow_of(memory).slots
    assert list(slots) == ["day", "name"]
    assert (slots["day"].value, slots["day"].description) == ("Monday", "Which day?")
    assert memory.status is ConversationStatus.COLLECTING_SLOTS


def test_a_slot_s_name_must_be_a_string() -> None:
    memory = collecting("day")

    with pytest.raises(ValidationError, match="name"):
        memory.collect_slot({"day": 1}, 1)  # type: ignore[arg-type]
