"""Working memory with random sequences of transitions and random data."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from jazzmine.records.enums import FlowStatus
from jazzmine.records.flow import ActiveFlowState, FlowRecord, PendingConfirmation, Slot
from jazzmine.records.memory_base import MemoryRecord
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TopicShift, TurnCache, WorkspaceEntity
from jazzmine.records.working_memory import WorkingMemory
from tests.unit.memory_machine import Conversation

Conversation.TestCase.settings = settings(max_examples=30, stateful_step_count=40)
TestConversation = Conversation.TestCase


KINDS: list[type[MemoryRecord]] = [
    ToolCallRecord,
    Slot,
    PendingConfirmation,
    WorkspaceEntity,
    TopicShift,
    FlowRecord,
    ActiveFlowState,
    TurnCache,
    WorkingMemory,
]
garbage = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.binary(max_size=5)
    | st.sampled_from([object(), FlowStatus.ACTIVE, {1}, 2**200, "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(data=st.data(), kind=st.sampled_from(KINDS))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_garbage_is_refused_with_a_validation_error_or_round_trips(
    data: st.DataObject, kind: type[MemoryRecord]
) -> None:
    names = list(kind.__pydantic_fields__)  # type: ignore[attr-defined]
    mapping = st.dictionaries(st.sampled_from(names), garbage, max_size=len(names))
    wild: Any = data.draw(garbage | mapping)

    try:
        record = kind.from_dict(wild)
    except ValidationError:
        return

    assert kind.from_dict(record.to_dict()) == record
