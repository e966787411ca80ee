from __future__ import annotations

from types import SimpleNamespace

import pytest

from jazzmine.records.flow import ActiveFlowState, PendingConfirmation, Slot
from jazzmine.records.messages import Entity, Message, MessageRole
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache
from jazzmine.records.working_memory import WorkingMemory


class Flow:
    id = "f1"
    name = "booking"


class ParallelFlow(Flow):
    subflows = (Flow(), Flow())
    priority = (2, 1)
    tools = ("search", SimpleNamespace(name="pay"))


class ConditionalFlow(Flow):
    subflows = (Flow(),)
    condition_expr = "seats > 2"


# Properties


@pytest.mark.parametrize(
    ("required", "collected", "pending"),
    [(True, False, True), (True, True, False), (False, False, False), (False, True, False)],
)
def test_a_slot_is_pending_if_it_is_required_and_not_collected(
    required: bool, collected: bool, pending: bool
) -> None:
    assert Slot("day", "", "date", required, collected).is_pending is pending


@pytest.mark.parametrize(("turn", "expired"), [(2, False), (4, False), (5, True), (9, True)])
def test_a_confirmation_expires_after_its_turns(turn: int, expired: bool) -> None:
    question = PendingConfirmation("f1", "Sure?", {}, requested_at_turn=2)

    assert question.is_expired(turn) is expired


def test_a_priority_that_is_no_pair_counts_as_none() -> None:
    assert ActiveFlowState("f1", "b", "flow", priority=[3]).priority_tuple == (0, 0)
    assert ActiveFlowState("f1", "b", "flow", priority=[3, 1]).priority_tuple == (3, 1)


def test_a_flow_knows_its_failed_calls_and_those_of_its_step() -> None:
    failed, good = ToolCallRecord("a", {}, success=False, step=0), ToolCallRecord("b", {}, step=1)
    flow = ActiveFlowState("f1", "b", "flow", current_step=1, tool_call_history=[failed, good])

    assert flow.failed_tool_calls == [failed]
    assert flow.tool_calls_for_step == [good]
    assert flow.last_tool_result == good


def test_a_turn_lists_its_episodes_summaries() -> None:
    cache = TurnCache(
        1,
        retrieved_same_conv_episodes=[{"short_summary": "same"}, {"short_summary": ""}, {}],
        retrieved_prev_conv_episodes=[{"short_summary": "before"}],
    )

    assert cache.episode_short_summaries == ["same", "before"]


def test_the_last_tool_result_is_the_turn_s_and_else_the_flow_s() -> None:
    flow = ActiveFlowState("f1", "b", "flow", tool_call_history=[ToolCallRecord("flow", {})])
    memory = WorkingMemory("c1", "u1", "a1", active_flow=flow)
    assert memory.last_tool_result is not None
    assert memory.last_tool_result.tool_name == "flow"

    memory.current_turn = TurnCache(1, tool_calls=[ToolCallRecord("turn", {})])

    assert memory.last_tool_result.tool_name == "turn"


# Construction from objects of the application


def test_a_minimal_flow_is_described() -> None:
    state = ActiveFlowState.from_flow(Flow(), 3)

    assert state == ActiveFlowState(
        "f1", "booking", "flow", started_at_turn=3, started_at=state.started_at
    )


def test_a_parallel_flow_has_its_branches() -> None:
    state = ActiveFlowState.from_flow(ParallelFlow(), 3)

    assert state.flow_type == "parallelflow"
    assert state.branch_results == {"branch_1": None, "branch_2": None}
    assert state.total_steps == 2
    assert state.priority_tuple == (2, 1)
    assert state.tools_required == ["search", "pay"]


def test_a_conditional_flow_has_its_condition_and_no_branches() -> None:
    state = ActiveFlowState.from_flow(ConditionalFlow(), 3)

    assert state.condition_expr == "seats > 2"
    assert state.total_steps == 1
    assert state.branch_results == {}


def test_a_flow_s_attributes_may_be_none() -> None:
    flow = SimpleNamespace(
        id="f1", name="b", priority=None, tools=None, subflows=None, condition_expr=None
    )

    state = ActiveFlowState.from_flow(flow, 1)

    assert (state.priority, state.tools_required, state.total_steps) == ([0, 0], [], 0)
    assert state.flow_type == "simplenamespace"


def test_a_turn_is_gathered_from_the_message_and_the_selection() -> None:
    message = Message(
        id="m1",
        conversation_id="c1",
        user_id="u1",
        role=MessageRole.USER,
        original_content="book it",
        enhanced_message="book a table",
        intent="book",
        sentiment_score=0.5,
        entities=[Entity(name="table", attributes=["round"])],
        is_cancellation=True,
        is_continuation=False,
        timestamp=1,
    )
    selection = SimpleNamespace(
        chosen_flows=[Flow()],
        unresolved_ids=["f7"],
        candidates=[{"flow_id": "f1"}],
        combined_prompt="<flow/>",
    )

    cache = TurnCache.from_enhancer_and_selector(
        2, message, [{"short_summary": "s"}], [{"id": 1}], [{"key": "k"}], selection
    )

    assert cache == TurnCache(
        turn_number=2,
        enhanced_query="book a table",
        intent="book",
        sentiment_score=0.5,
        is_continuation=False,
        is_cancellation=True,
        raw_entities=[{"name": "table", "attributes": ["round"]}],
        retrieved_same_conv_episodes=[{"short_summary": "s"}],
        retrieved_prev_conv_episodes=[{"id": 1}],
        retrieved_semantic_terms=[{"key": "k"}],
        combined_flow_prompt="<flow/>",
        selected_flow_ids=["f1"],
        unresolved_flow_ids=["f7"],
        flow_candidates=[{"flow_id": "f1"}],
    )
    assert cache.has_flow_selected


def test_a_turn_is_gathered_without_entities_and_selection() -> None:
    message = SimpleNamespace(
        enhanced_message="",
        original_content="book it",
        intent="",
        sentiment_score=0,
        is_continuation=True,
        is_cancellation=False,
        entities=None,
    )

    cache = TurnCache.from_enhancer_and_selector(2, message, [], [], [], None)

    assert cache == TurnCache(2, "book it", "unknown")
    assert not cache.has_flow_selected
