"""A transition is repeated because its caller got no reply."""

from __future__ import annotations

import pytest

from jazzmine.records.enums import ConversationStatus
from jazzmine.records.flow import ActiveFlowState
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TopicShift, TurnCache, WorkspaceEntity
from tests.behaviour.memory_samples import REPEATABLE_UPDATES, Update, busy
from tests.unit.memories import flow_of, in_flow, new_memory


@pytest.mark.parametrize("update", REPEATABLE_UPDATES, ids=str)
def test_a_repeated_transition_equals_one(update: Update) -> None:
    memory = busy("c")
    arguments = update.arguments()
    getattr(memory, update.name)(*arguments)
    once = {**memory.to_dict(), "last_updated": 0.0}

    getattr(memory, update.name)(*arguments)

    assert {**memory.to_dict(), "last_updated": 0.0} == once


def test_a_step_that_is_made_again_is_another_step() -> None:
    memory = in_flow(total_steps=3)

    memory.advance_sequential_step({"found": 1})
    memory.advance_sequential_step({"found": 1})

    assert flow_of(memory).current_step == 2


def test_a_call_that_is_recorded_again_is_another_call() -> None:
    memory = in_flow()
    memory.begin_turn(TurnCache(1))
    call = ToolCallRecord("search", {})

    memory.record_tool_call(call)
    memory.record_tool_call(call)

    assert [call.call_index for call in flow_of(memory).tool_call_history] == [0, 1]


def test_a_turn_that_begins_again_replaces_its_cache() -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(1, "helo"))

    memory.begin_turn(TurnCache(1, "hello"))

    assert memory.current_turn == TurnCache(1, "hello")


def test_a_turn_that_begins_again_counts_only_new_mentions() -> None:
    memory = new_memory()
    ada = {"name": "Ada", "attributes": ["kind"]}
    memory.begin_turn(TurnCache(1, raw_entities=[ada, ada]))

    memory.begin_turn(TurnCache(1, raw_entities=[ada, {"name": "Bob"}, ada]))

    assert memory.entity_workspace == {
        "Ada": WorkspaceEntity("Ada", ["kind"], 1, 1, 2),
        "Bob": WorkspaceEntity("Bob", [], 1, 1, 1),
    }


def test_a_mention_with_other_attributes_counts_once_when_a_turn_begins_again() -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(1, raw_entities=[{"name": "Ada", "attributes": ["kind"]}]))

    memory.begin_turn(TurnCache(1, raw_entities=[{"name": " Ada", "attributes": ["tall"]}]))

    assert memory.entity_workspace == {"Ada": WorkspaceEntity("Ada", ["kind", "tall"], 1, 1, 1)}


def test_more_attributes_than_are_kept_stay_the_same_when_a_turn_begins_again() -> None:
    memory = new_memory()
    attributes = [str(number) for number in range(2 * memory.max_entity_attributes)]
    cache = TurnCache(1, raw_entities=[{"name": "Ada", "attributes": attributes}])
    memory.begin_turn(cache)
    once = memory.entity_workspace

    memory.begin_turn(cache)

    assert memory.entity_workspace == once


def test_a_turn_that_begins_again_adds_no_second_topic() -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(1, intent="book", is_continuation=False))
    memory.end_turn("Where to?", "ask", "a journey")

    memory.begin_turn(TurnCache(1, intent="book", is_continuation=False))

    assert memory.topic_history == [TopicShift(1, "book", "a journey")]


def test_a_turn_that_begins_again_may_add_a_topic() -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(1, is_continuation=True))

    memory.begin_turn(TurnCache(1, intent="book", is_continuation=False))

    assert memory.topic_history == [TopicShift(1, "book")]


def test_a_turn_whose_continuation_flips_twice_adds_one_topic() -> None:
    memory = new_memory()

    for is_continuation in (False, True, False):
        memory.begin_turn(TurnCache(1, intent="book", is_continuation=is_continuation))

    assert memory.topic_history == [TopicShift(1, "book")]


def test_a_cancellation_that_begins_again_leaves_the_flow_that_came_after_it() -> None:
    memory = in_flow()
    memory.begin_turn(TurnCache(1, is_cancellation=True))
    memory.start_flow(ActiveFlowState("f2", "refund", "flow"))

    memory.begin_turn(TurnCache(1, is_cancellation=True))

    assert flow_of(memory).flow_id == "f2"
    assert [flow.flow_id for flow in memory.flow_history] == ["f1"]
    assert memory.status is ConversationStatus.IN_FLOW


def test_a_turn_that_begins_again_may_be_a_cancellation_after_all() -> None:
    memory = in_flow()
    memory.begin_turn(TurnCache(1))

    memory.begin_turn(TurnCache(1, is_cancellation=True))

    assert memory.active_flow is None


def test_a_first_turn_zero_is_not_a_repeated_one() -> None:
    memory = new_memory()

    memory.begin_turn(TurnCache(0, intent="greet", is_continuation=False))

    assert memory.topic_history == [TopicShift(0, "greet")]
