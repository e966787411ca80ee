from __future__ import annotations

import copy
import inspect
import json
import re
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.records.flow import ActiveFlowState, Slot
from jazzmine.records.memory_base import checked_copy
from jazzmine.records.memory_json import from_json, to_json
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TopicShift
from jazzmine.records.working_memory import WorkingMemory
from tests.behaviour.memory_samples import busy

# The values of fields


def test_a_dict_shares_nothing_with_its_record() -> None:
    record = ToolCallRecord("search", {"tags": ["a"]})

    record.to_dict()["arguments"]["tags"].append("b")

    assert record.arguments == {"tags": ["a"]}


def test_an_enum_is_in_a_dict_as_its_value() -> None:
    data = WorkingMemory("c1", "u1", "a1").to_dict()

    assert data["status"] == "idle"
    assert type(data["status"]) is str


def test_no_record_is_built_with_an_unknown_field() -> None:
    data = Slot("day", "", "date").to_dict() | {"colour": "red"}

    with pytest.raises(ValidationError, match="colour"):
        Slot(**data)


def test_a_positional_argument_is_refused_by_its_field_s_name() -> None:
    with pytest.raises(ValidationError, match="arguments\n"):
        ToolCallRecord("search", {"x": float("nan")})


def test_too_many_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="TopicShift takes 3 arguments, 4 were given"):
        TopicShift(1, "book", "", 4)  # type: ignore[call-arg]


def test_the_signature_shows_the_fields() -> None:
    assert list(inspect.signature(TopicShift).parameters) == ["turn_number", "intent", "summary"]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("result", {1, 2}),
        ("result", float("-inf")),
        ("result", 2**63),
        ("arguments", {"a\0": 1}),
        ("arguments", {3: 1}),
        ("arguments", [1]),
        ("tool_name", "\ud800"),
        ("tool_name", 7),
        ("turn_number", 2**63),
        ("turn_number", "x"),
        ("called_at", float("nan")),
    ],
)
def test_a_wrong_value_is_refused_at_construction_and_assignment(field: str, wrong: Any) -> None:
    record = ToolCallRecord("search", {})
    before = copy.deepcopy(record)

    with pytest.raises(ValidationError, match=field):
        ToolCallRecord(**{"tool_name": "search", "arguments": {}, field: wrong})
    with pytest.raises(ValidationError, match=field):
        setattr(record, field, wrong)

    assert record == before


def test_an_assigned_record_is_copied() -> None:
    memory = WorkingMemory("c1", "u1", "a1")
    flow = ActiveFlowState("f1", "booking", "flow")

    memory.active_flow = flow
    flow.flow_name = "changed"

    assert memory.active_flow is not None
    assert memory.active_flow.flow_name == "booking"


# JSON


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b'{"conversation_id": "c1"}', b"\xff", b'"\\ud800"']
)
def test_json_that_is_no_working_memory_is_refused(data: bytes) -> None:
    with pytest.raises(ValidationError):
        from_json(data)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_number_that_cannot_be_stored_is_refused_wherever_it_stands(number: str) -> None:
    stored = {"format": 1, **busy("c").to_dict()}
    text = json.dumps(stored, separators=(",", ":"))
    numbers = [*re.finditer(r"(?<=[:\[,])-?\d[\d.e+-]*(?=[,}\]])", text)]
    accepted = []

    for found in numbers:
        try:
            from_json((text[: found.start()] + number + text[found.end() :]).encode())
        except ValidationError:
            continue
        accepted.append(text[: found.end()][-40:])

    assert len(numbers) > 20
    assert accepted == []


def test_a_text_may_speak_of_nan_and_infinity() -> None:
    memory = WorkingMemory("c1", "u1", "a1", last_agent_response="NaN < Infinity")

    assert from_json(to_json(memory)) == memory


# Changes in place


def test_a_nan_put_into_a_slot_is_refused_by_name() -> None:
    memory = busy("c")
    assert memory.active_flow is not None
    memory.active_flow.slots["size"].value = {}
    memory.active_flow.slots["size"].value["x"] = float("nan")

    with pytest.raises(ValidationError, match=r"slots\.size\.value"):
        memory.to_dict()
    with pytest.raises(ValidationError, match=r"slots\.size\.value"):
        checked_copy(memory, WorkingMemory, "memory")


def test_a_wrong_type_put_into_a_list_is_refused_by_name() -> None:
    memory = WorkingMemory("c1", "u1", "a1")
    memory.flow_history.append("f1")  # type: ignore[arg-type]

    with pytest.raises(ValidationError, match=r"flow_history\.0"):
        checked_copy(memory, WorkingMemory, "memory")


def test_a_number_too_large_put_into_a_list_is_refused_by_name() -> None:
    flow = ActiveFlowState("f1", "booking", "flow")
    flow.priority.append(2**70)

    with pytest.raises(ValidationError, match=r"priority\.2"):
        flow.to_dict()
