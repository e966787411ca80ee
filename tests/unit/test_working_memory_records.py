from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.records.flow import ActiveFlowState, Slot
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TopicShift
from jazzmine.records.working_memory import WorkingMemory

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
