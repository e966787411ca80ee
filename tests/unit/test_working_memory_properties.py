"""Working memory under sequences of transitions, and under data, that nobody thought of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from pydantic import ValidationError

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import ActiveFlowState, FlowRecord, PendingConfirmation, Slot
from jazzmine.records.memory_base import MemoryRecord
from jazzmine.records.memory_copy import deep_copy, partial_copy
from jazzmine.records.memory_json import from_json, to_json
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TopicShift, TurnCache, WorkspaceEntity
from jazzmine.records.working_memory import WorkingMemory

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
    ToolCallRecord, texts, json_objects, json_values, texts, st.booleans(), turn_number=numbers
)
entities = st.fixed_dictionaries(
    {"name": st.sampled_from(["Ada", " Ada", "Bob", " "])},
    optional={"attributes": st.lists(texts, max_size=3)},
)
caches = st.builds(
    TurnCache,
    turn_number=numbers,
    intent=texts,
    is_continuation=st.booleans(),
    is_cancellation=st.booleans(),
    raw_entities=st.lists(entities, max_size=3),
)

STATUS_OF_FLOW = {
    FlowStatus.ACTIVE: ConversationStatus.IN_FLOW,
    FlowStatus.COLLECTING_SLOTS: ConversationStatus.COLLECTING_SLOTS,
    FlowStatus.AWAITING_CONFIRMATION: ConversationStatus.AWAITING_CONFIRMATION,
}


def mutable_parts(value: Any) -> set[int]:
    """The identities of all records, lists and dicts that something consists of."""
    if isinstance(value, MemoryRecord):
        inner = list(vars(value).values())
    elif isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, list):
        inner = value
    else:
        return set()
    return {id(value)}.union(*map(mutable_parts, inner))


class Conversation(RuleBasedStateMachine):
    """Calls the transitions in any order; whatever happens, the rules below hold."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = WorkingMemory("c1", "u1", "a1")
        self.started = 0
        self.in_both = 0

    def apply(self, transition: Callable[[WorkingMemory], bool]) -> None:
        original, before = self.memory, self.memory.to_dict()
        self.memory = partial_copy(original)
        applied = transition(self.memory)
        if self.memory.active_flow is None:
            self.in_both = 0
        assert original.to_dict() == before
        assert applied or self.memory.to_dict() == before
        assert not applied or self.memory.last_updated >= before["last_updated"]

    @rule(cache=caches)
    def begin_turn(self, cache: TurnCache) -> None:
        self.apply(lambda memory: memory.begin_turn(cache))
        assert self.memory.turn_number == cache.turn_number
        self.in_both = 0

    @rule(response=texts, intent=texts, summary=texts)
    def end_turn(self, response: str, intent: str, summary: str) -> None:
        self.apply(lambda memory: memory.end_turn(response, intent, summary))

    @rule(branches=numbers, status=st.sampled_from(list(STATUS_OF_FLOW)))
    def start_flow(self, branches: int, status: FlowStatus) -> None:
        results = {f"branch_{number}": None for number in range(1, branches % 3 + 1)}
        flow = ActiveFlowState(f"f{self.started}", "n", "flow", status, branch_results=results)
        self.apply(lambda memory: memory.start_flow(flow))
        self.started += 1
        self.in_both = 0

    @rule(result=json_objects)
    def advance_sequential_step(self, result: dict[str, Any]) -> None:
        self.apply(lambda memory: memory.advance_sequential_step(result))

    @rule(branch_id=branch_ids, result=json_values)
    def record_branch_result(self, branch_id: str, result: Any) -> None:
        self.apply(lambda memory: memory.record_branch_result(branch_id, result))

    @rule(branch=texts)
    def set_condition_branch(self, branch: str) -> None:
        self.apply(lambda memory: memory.set_condition_branch(branch))

    @rule(call=calls)
    def record_tool_call(self, call: ToolCallRecord) -> None:
        self.apply(lambda memory: memory.record_tool_call(call))
        if self.memory.active_flow is not None and self.memory.current_turn is not None:
            self.in_both += 1

    @rule(asked=st.lists(slots, max_size=3))
    def register_slots(self, asked: list[Slot]) -> None:
        self.apply(lambda memory: memory.register_slots(asked))

    @rule(name=slot_names, value=json_values, error=st.sampled_from(["", "", "wrong"]))
    def collect_slot(self, name: str, value: Any, error: str) -> None:
        self.apply(lambda memory: memory.collect_slot(name, value, error))

    @rule(payload=json_objects, timeout_turns=numbers)
    def request_confirmation(self, payload: dict[str, Any], timeout_turns: int) -> None:
        turn = self.memory.turn_number
        asked = PendingConfirmation("f", "sure?", payload, turn, timeout_turns=timeout_turns)
        self.apply(lambda memory: memory.request_confirmation(asked))

    @rule(ending=st.sampled_from(["complete_flow", "cancel_flow", "fail_flow", "confirm_action"]))
    def end_something(self, ending: str) -> None:
        self.apply(lambda memory: bool(getattr(memory, ending)()))

    @rule()
    def store_and_read(self) -> None:
        self.memory = from_json(to_json(self.memory))

    @invariant()
    def the_status_follows_from_the_flow(self) -> None:
        if self.memory.active_flow is not None:
            assert self.memory.status is STATUS_OF_FLOW[self.memory.active_flow.status]
        elif self.memory.pending_confirmation is not None:
            assert self.memory.status is ConversationStatus.AWAITING_CONFIRMATION
        else:
            assert self.memory.status is ConversationStatus.IDLE

    @invariant()
    def it_comes_back_from_a_dict_and_from_json(self) -> None:
        assert WorkingMemory.from_dict(self.memory.to_dict()) == self.memory
        assert from_json(to_json(self.memory)) == self.memory

    @invariant()
    def a_deep_copy_shares_nothing_that_can_be_changed(self) -> None:
        copied = deep_copy(self.memory)
        assert copied == self.memory
        assert not mutable_parts(copied) & mutable_parts(self.memory)

    @invariant()
    def the_turn_s_calls_are_numbered_without_a_gap(self) -> None:
        turn = self.memory.current_turn
        indexes = [call.call_index for call in turn.tool_calls] if turn else []
        assert indexes == list(range(len(indexes)))

    @invariant()
    def no_flow_vanishes(self) -> None:
        archived = [flow.flow_id for flow in self.memory.flow_history]
        active = [self.memory.active_flow.flow_id] if self.memory.active_flow else []
        assert archived + active == [f"f{number}" for number in range(self.started)]

    @invariant()
    def a_prompt_shows_each_call_once(self) -> None:
        flow, turn = self.memory.active_flow, self.memory.current_turn
        shown = self.memory.build_prompt_tool_sections().count("<call ")
        in_flow = len(flow.tool_call_history) if flow else 0
        in_turn = len(turn.tool_calls) if turn else 0
        assert shown == in_flow + in_turn - self.in_both

    @invariant()
    def slots_are_kept_under_their_names(self) -> None:
        flow = self.memory.active_flow
        known = flow.slots if flow else {}
        assert all(slot.name == name for name, slot in known.items())


Conversation.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
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
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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


@given(
    data=st.binary(max_size=60) | garbage.map(lambda value: repr(value).encode("utf-8", "replace"))
)
@settings(max_examples=200, deadline=None)
def test_bytes_that_are_no_working_memory_are_refused(data: bytes) -> None:
    with pytest.raises(ValidationError):
        from_json(data)
