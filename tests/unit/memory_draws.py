"""Random values for the transitions of a working memory."""

from __future__ import annotations

from hypothesis import strategies as st

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import ActiveFlowState, Slot
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache

texts = st.text(max_size=8)
numbers = st.integers(min_value=0, max_value=20)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts.filter(lambda key: "\0" not in key), inner, max_size=3)
    ),
    max_leaves=8,
)
json_objects = st.dictionaries(texts.filter(lambda key: "\0" not in key), json_values, max_size=3)
slot_names = st.sampled_from(["day", "seats", "name"])
branch_ids = st.sampled_from(["branch_1", "branch_2", "branch_3"])
slots = st.builds(Slot, slot_names, texts, texts, st.booleans())
calls = st.builds(
    ToolCallRecord,
    st.just(""),
    json_objects,
    json_values,
    texts,
    st.booleans(),
    turn_number=numbers,
)
attributes = st.lists(st.sampled_from("abcdefgh"), max_size=6)
entities = st.fixed_dictionaries(
    {"name": st.sampled_from(["Ada", " Ada", "Bob", " "])}, optional={"attributes": attributes}
)
seldom = st.sampled_from([0, 0, 0, 1, 3])  # a number that is mostly 0
turn_numbers = st.integers(min_value=0, max_value=5) | numbers
caches = st.builds(
    TurnCache,
    turn_number=turn_numbers,
    message_id=st.sampled_from(["", "", "", "a", "b", "c"]),
    intent=texts,
    is_continuation=st.booleans(),
    is_cancellation=st.sampled_from([False] * 5 + [True]),
    raw_entities=st.lists(entities, max_size=3),
)
flows = st.builds(
    ActiveFlowState,
    st.just("f"),
    texts,
    st.just("flow"),
    st.sampled_from([status for status in FlowStatus if status.is_in_progress]),
    current_step=st.integers(0, 4),
    total_steps=st.integers(0, 3),
    branch_results=st.fixed_dictionaries({}, optional={"branch_1": st.none()}),
    tool_call_history=st.lists(calls, max_size=2),
    slots=st.lists(slots, max_size=2).map(lambda found: {slot.name: slot for slot in found}),
)

STATUS_OF_FLOW = {
    FlowStatus.ACTIVE: ConversationStatus.IN_FLOW,
    FlowStatus.COLLECTING_SLOTS: ConversationStatus.COLLECTING_SLOTS,
    FlowStatus.AWAITING_CONFIRMATION: ConversationStatus.AWAITING_CONFIRMATION,
}
