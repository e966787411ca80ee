from __future__ import annotations

import json
import re

import pytest
from pydantic import ValidationError

from jazzmine.records.flow import ActiveFlowState
from jazzmine.records.memory_base import checked_copy
from jazzmine.records.memory_json import from_json, to_json
from jazzmine.records.working_memory import WorkingMemory
from tests.behaviour.memory_samples import busy


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
