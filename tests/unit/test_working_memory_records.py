from __future__ import annotations

import copy
import inspect
import json
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.records.flow import ActiveFlowState, FlowRecord, PendingConfirmation, Slot
from jazzmine.records.memory_base import MemoryRecord
from jazzmine.records.memory_json import from_json, to_json
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TopicShift, TurnCache, WorkspaceEntity
from jazzmine.records.working_memory import WorkingMemory

# The values of fields


@pytest.mark.parametrize(
    "record",
    [
        ToolCallRecord("search", {"q": [1, None, {"x": 2.5}]}, {"rows": []}, step=1, branch="b"),
        Slot("day", "which day", "date", True, True, ["Monday"], 3, "late"),
        PendingConfirmation("f1", "Sure?", {"seats": 4}, 2, timeout_turns=1),
        WorkspaceEntity("Ada", ["kind"], 1, 2, 3),
        TopicShift(1, "book", "a table"),
        FlowRecord("f1", "booking", "flow", "failed", 1, 2, {"day": 1}, ["found"]),
        ActiveFlowState("f1", "booking", "flow", slots={"day": Slot("day", "", "date")}),
        TurnCache(1, "hi", raw_entities=[{"name": "Ada"}], tool_calls=[ToolCallRecord("t", {})]),
        WorkingMemory("c1", "u1", "a1", current_turn=TurnCache(1), revision=4),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_comes_back_from_its_dict(record: MemoryRecord) -> None:
    data = record.to_dict()

    assert type(record).from_dict(json.loads(json.dumps(data))) == record
    assert type(record).from_dict(data) == record


def test_a_dict_shares_nothing_with_its_record() -> None:
    record = ToolCallRecord("search", {"tags": ["a"]})

    record.to_dict()["arguments"]["tags"].append("b")

    assert record.arguments == {"tags": ["a"]}


def test_a_record_shares_nothing_with_the_dict_it_was_built_from() -> None:
    data = ToolCallRecord("search", {"tags": ["a"]}).to_dict()

    record = ToolCallRecord.from_dict(data)
    data["arguments"]["tags"].append("b")

    assert record.arguments == {"tags": ["a"]}


def test_an_enum_is_in_a_dict_as_its_value() -> None:
    data = WorkingMemory("c1", "u1", "a1").to_dict()

    assert data["status"] == "idle"
    assert type(data["status"]) is str


def test_no_record_is_built_with_an_unknown_field() -> None:
    data = Slot("day", "", "date").to_dict() | {"colour": "red"}

    with pytest.raises(ValidationError, match="colour"):
        Slot(**data)


def test_an_unknown_field_of_stored_data_is_kept() -> None:
    data = Slot("day", "", "date").to_dict() | {"colour": "red"}

    record = Slot.from_dict(data)

    assert record == Slot("day", "", "date")
    assert record.to_dict() == data


def test_a_missing_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="description"):
        Slot.from_dict({"name": "day", "type": "date"})


@pytest.mark.parametrize("garbage", [None, [], "text", 7, {1: 2}, {"name": {}}, [["name", "day"]]])
def test_a_value_that_is_no_record_is_refused(garbage: Any) -> None:
    with pytest.raises(ValidationError):
        Slot.from_dict(garbage)


def test_a_positional_argument_is_refused_by_its_field_s_name() -> None:
    with pytest.raises(ValidationError, match="arguments\n"):
        ToolCallRecord("search", {"x": float("nan")})


def test_too_many_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="TopicShift takes 3 arguments, 4 were given"):
        TopicShift(1, "book", "", 4)  # type: ignore[call-arg]


def test_an_argument_given_twice_is_refused() -> None:
    with pytest.raises(TypeError, match="turn_number"):
        TopicShift(1, "book", turn_number=1)  # type: ignore[misc]


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


def test_u_0000_in_a_text_is_kept() -> None:
    memory = WorkingMemory("c\0", "u1", "a1", last_agent_response="\0")

    assert from_json(to_json(memory)) == memory


def test_a_conversation_id_may_not_be_empty() -> None:
    with pytest.raises(ValidationError, match="conversation_id"):
        WorkingMemory("", "u1", "a1")


def test_an_assigned_record_is_copied() -> None:
    memory = WorkingMemory("c1", "u1", "a1")
    flow = ActiveFlowState("f1", "booking", "flow")

    memory.active_flow = flow
    flow.flow_name = "changed"

    assert memory.active_flow is not None
    assert memory.active_flow.flow_name == "booking"
