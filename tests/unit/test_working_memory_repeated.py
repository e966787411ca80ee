"""A transition is repeated because its caller got no reply."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine.records.enums import ConversationStatus
from jazzmine.records.flow import ActiveFlowState
from jazzmine.records.turn import TurnCache
from jazzmine.records.working_memory import WorkingMemory
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


mentions = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from("ABC "),
            "attributes": st.lists(st.sampled_from("xyz"), max_size=3),
        }
    ),
    max_size=4,
)


@given(turns=st.lists(st.tuples(st.integers(1, 9), st.lists(mentions, min_size=1)), max_size=6))
def test_a_turn_that_begins_again_and_again_knows_what_its_last_beginning_says(
    turns: list[tuple[int, list[list[dict[str, Any]]]]],
) -> None:
    """Whatever the turns before have mentioned, and however often each has begun."""
    memory, once = new_memory(), new_memory()
    memory.entity_max_age_turns = once.entity_max_age_turns = 2
    number = 0
    for skipped, beginnings in turns:
        number += skipped
        for mentioned in beginnings:
            memory.begin_turn(TurnCache(number, raw_entities=mentioned))
            memory = WorkingMemory.from_dict(memory.to_dict())
        once.begin_turn(TurnCache(number, raw_entities=beginnings[-1]))

        assert memory.salient_entities == once.salient_entities
        assert list(memory.entity_workspace) == list(once.entity_workspace)


def test_a_turn_that_an_earlier_version_began_keeps_its_entities_when_it_begins_again() -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(1, raw_entities=[{"name": "Ada", "attributes": []}]))
    stored = memory.to_dict()
    del stored["current_turn"]["entities_before"]
    memory = WorkingMemory.from_dict(stored)

    memory.begin_turn(TurnCache(1))

    assert list(memory.entity_workspace) == ["Ada"]


def test_a_cancellation_that_begins_again_leaves_the_flow_that_came_after_it() -> None:
    memory = in_flow()
    memory.begin_turn(TurnCache(1, is_cancellation=True))
    memory.start_flow(ActiveFlowState("f2", "refund", "flow"))

    memory.begin_turn(TurnCache(1, is_cancellation=True))

    assert flow_of(memory).flow_id == "f2"
    assert [flow.flow_id for flow in memory.flow_history] == ["f1"]
    assert memory.status is ConversationStatus.IN_FLOW
