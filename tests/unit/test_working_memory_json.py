from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import ActiveFlowState
from jazzmine.records.memory_base import checked_copy
from jazzmine.records.memory_json import from_json, to_json
from jazzmine.records.working_memory import WorkingMemory

# As jazzmine 0.1.42 stored it: no `revision`, and a flow from before `tool_summaries`.
STORED_BY_THE_PREDECESSOR: dict[str, Any] = {
    "conversation_id": "c1",
    "user_id": "u1",
    "agent_id": "a1",
    "created_at": 1700000000.25,
    "last_updated": 1700000001.5,
    "status": "collecting_slots",
    "turn_number": 2,
    "active_flow": {
        "flow_id": "f1",
        "flow_name": "booking",
        "flow_type": "parallelflow",
        "status": "collecting_slots",
        "started_at_turn": 1,
        "started_at": 1700000000.5,
        "priority": [1, 2],
        "tools_required": ["search"],
        "current_step": 0,
        "total_steps": 2,
        "step_results": [{"ok": True}],
        "branch_results": {"branch_1": None, "branch_2": {"rows": [1, 2.5, None]}},
        "condition_expr": None,
        "condition_branch_taken": None,
        "tool_call_history": [
            {
                "tool_name": "search",
                "arguments": {"q": "é"},
                "result": [1],
                "result_summary": "one",
                "success": True,
                "error": "",
                "turn_number": 2,
                "call_index": 0,
                "called_at": 1700000001.0,
                "step": None,
                "branch": None,
            }
        ],
        "slots": {
            "day": {
                "name": "day",
                "description": "which day",
                "type": "date",
                "required": True,
                "collected": False,
                "value": None,
                "collected_at_turn": 0,
                "validation_error": "",
            }
        },
    },
    "flow_history": [
        {
            "flow_id": "f0",
            "flow_name": "greeting",
            "flow_type": "flow",
            "status": "completed",
            "started_at_turn": 0,
            "ended_at_turn": 1,
            "slot_values": {"name": "Ada"},
        }
    ],
    "pending_confirmation": None,
    "entity_workspace": {
        "Ada": {
            "name": "Ada",
            "attributes": ["kind"],
            "first_seen_turn": 1,
            "last_seen_turn": 2,
            "mention_count": 2,
        }
    },
    "entity_max_age_turns": 5,
    "topic_history": [{"turn_number": 1, "intent": "book", "summary": ""}],
    "last_agent_response": None,
    "last_agent_intent": None,
    "current_turn": None,
}


def test_data_of_the_predecessor_is_read() -> None:
    memory = from_json(json.dumps(STORED_BY_THE_PREDECESSOR).encode())

    assert memory.revision == 0
    assert memory.status is ConversationStatus.COLLECTING_SLOTS
    assert memory.active_flow is not None
    assert memory.active_flow.status is FlowStatus.COLLECTING_SLOTS
    assert memory.active_flow.slots["day"].is_pending
    assert memory.flow_history[0].tool_summaries == []
    assert memory.entity_workspace["Ada"].mention_count == 2


def test_the_fields_keep_the_predecessor_s_names_and_order() -> None:
    memory = WorkingMemory.from_dict(STORED_BY_THE_PREDECESSOR)

    assert list(memory.to_dict()) == [
        *STORED_BY_THE_PREDECESSOR,
        "revision",
        "version_token",
        "topics_dropped",
        "flows_dropped",
        "data",
        "suspended_flows",
        "turns_by_message",
        "applied_messages",
        "confirmed",
    ]
    assert list(memory.to_dict()["active_flow"]) == list(STORED_BY_THE_PREDECESSOR["active_flow"])


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b'{"conversation_id": "c1"}', b"\xff", b'"\\ud800"']
)
def test_json_that_is_no_working_memory_is_refused(data: bytes) -> None:
    with pytest.raises(ValidationError):
        from_json(data)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_number_that_json_does_not_have_is_refused_in_each_field_for_a_number(
    number: str,
) -> None:
    stored = {"format": 1, **WorkingMemory.from_dict(STORED_BY_THE_PREDECESSOR).to_dict()}
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
    # Results are any values, which are checked when they are recorded.
    assert [each for each in accepted if not re.search('"result":|"rows":', each)] == []


def test_a_text_may_speak_of_nan_and_infinity() -> None:
    memory = WorkingMemory("c1", "u1", "a1", last_agent_response="NaN < Infinity")

    assert from_json(to_json(memory)) == memory


# Changes in place


def test_a_nan_put_into_a_slot_is_refused_by_name() -> None:
    memory = WorkingMemory.from_dict(STORED_BY_THE_PREDECESSOR)
    assert memory.active_flow is not None
    memory.active_flow.slots["day"].value = {}
    memory.active_flow.slots["day"].value["x"] = float("nan")

    with pytest.raises(ValidationError, match=r"slots\.day\.value"):
        memory.to_dict()
    with pytest.raises(ValidationError, match=r"slots\.day\.value"):
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


# Import paths of jazzmine 0.1
