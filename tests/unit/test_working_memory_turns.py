from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.turn import TopicShift, TurnCache, WorkspaceEntity
from jazzmine.records.working_memory import WorkingMemory
from tests.unit.memories import awaiting_confirmation, in_flow, new_memory


def entity(name: str, *attributes: str) -> dict[str, object]:
    return {"name": name, "attributes": list(attributes)}


@pytest.mark.parametrize(
    ("mentions", "remembered"),
    [
        ([(2, [entity("  Ada ", "kind")])], [WorkspaceEntity("Ada", ["kind"], 2, 2, 1)]),
        (
            [(1, [entity("Ada", "kind", "tall")]), (3, [entity("Ada", "late", "kind", "late")])],
            [WorkspaceEntity("Ada", ["kind", "tall", "late"], 1, 3, 2)],
        ),
        (
            [(1, [entity("Ada", "a"), entity("Ada ", "b")])],
            [WorkspaceEntity("Ada", ["a", "b"], 1, 1, 2)],
        ),
        ([(1, [entity(" \n"), {"attributes": ["x"]}, {}])], []),
        (
            [(1, [{"name": "Ada"}, {"name": "Bob", "attributes": None}])],
            [WorkspaceEntity("Ada", [], 1, 1, 1), WorkspaceEntity("Bob", [], 1, 1, 1)],
        ),
    ],
    ids=["by its stripped name", "again", "twice in a turn", "no name", "no attributes"],
)
def test_an_entity_is_remembered(
    mentions: list[tuple[int, list[dict[str, Any]]]], remembered: list[WorkspaceEntity]
) -> None:
    memory = new_memory()

    for number, entities in mentions:
        memory.begin_turn(TurnCache(number, raw_entities=entities))

    assert memory.entity_workspace == {one.name: one for one in remembered}


def test_an_entity_is_kept_for_as_many_turns_as_it_may_be_old() -> None:
    memory = new_memory()
    memory.entity_max_age_turns = 2
    memory.begin_turn(TurnCache(1, raw_entities=[entity("Ada"), entity("Bob")]))

    memory.begin_turn(TurnCache(3, raw_entities=[entity("Bob")]))
    assert list(memory.entity_workspace) == ["Ada", "Bob"]
    memory.begin_turn(TurnCache(4))
    assert list(memory.entity_workspace) == ["Bob"]


def test_salient_entities_start_with_the_latest_seen() -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(1, raw_entities=[entity("Ada"), entity("Bob"), entity("Cy")]))

    memory.begin_turn(TurnCache(2, raw_entities=[entity("Cy")]))

    assert [each.name for each in memory.salient_entities] == ["Cy", "Bob", "Ada"]


@pytest.mark.parametrize(
    ("turn", "is_cancellation", "is_cancelled"),
    [(3, False, False), (4, False, True), (2, True, True), (4, True, True)],
)
def test_a_cancellation_or_an_expired_confirmation_cancels_the_flow_that_waits(
    turn: int, is_cancellation: bool, is_cancelled: bool
) -> None:
    memory = awaiting_confirmation(requested_at_turn=1)

    memory.begin_turn(TurnCache(turn, is_cancellation=is_cancellation))

    assert memory.has_pending_confirmation is not is_cancelled
    assert (memory.active_flow is None) is is_cancelled
    ended = [(flow.flow_id, flow.status, flow.ended_at_turn) for flow in memory.flow_history]
    status = "cancelled" if is_cancellation else "expired"
    assert ended == ([("f1", status, turn)] if is_cancelled else [])
    waits = ConversationStatus.AWAITING_CONFIRMATION
    assert memory.status is (ConversationStatus.IDLE if is_cancelled else waits)


@pytest.mark.parametrize(
    ("wrong", "place"),
    [({"name": "Bob", "attributes": [7]}, r"attributes\.0"), ({"name": 7}, "name")],
)
def test_a_turn_with_a_bad_entity_changes_nothing(wrong: dict[str, Any], place: str) -> None:
    memory = awaiting_confirmation()
    memory.begin_turn(TurnCache(1, raw_entities=[entity("Ada")]))
    before = memory.to_dict()
    cache = TurnCache(9, raw_entities=[entity("Ada"), wrong], is_continuation=False)

    with pytest.raises(ValidationError, match=place):
        memory.begin_turn(cache)

    assert memory.to_dict() == before


@pytest.mark.parametrize(
    ("summaries", "kept"),
    [(["a table for two"], "a table for two"), ([None], "inform"), (["first", "second"], "first")],
)
def test_the_latest_topic_gets_its_first_summary_or_the_intent(
    summaries: list[str | None], kept: str
) -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(1, intent="book", is_continuation=False))

    for summary in summaries:
        memory.end_turn("Done.", "inform", *filter(None, [summary]))

    assert memory.topic_history == [TopicShift(1, "book", kept)]


def test_only_the_latest_topic_is_summarised() -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(1, intent="book", is_continuation=False))
    memory.begin_turn(TurnCache(2, intent="cancel", is_continuation=False))

    memory.end_turn("Done.", "inform", "cancelling")

    assert memory.topic_history == [TopicShift(1, "book"), TopicShift(2, "cancel", "cancelling")]


def test_an_active_flow_is_interruptible_only_while_it_collects_slots() -> None:
    memory = in_flow()
    assert memory.active_flow is not None
    assert not memory.current_flow_can_be_interrupted

    memory.active_flow.status = FlowStatus.COLLECTING_SLOTS

    assert memory.current_flow_can_be_interrupted
    assert new_memory().current_flow_can_be_interrupted


def test_an_entity_is_forgotten_also_where_the_turn_begins_again() -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(message_id="a", raw_entities=[entity("Ada"), entity("Bob")]))
    memory.begin_turn(TurnCache(message_id="b"))

    assert memory.forget_entity("Ada") is True
    assert memory.forget_entity("Ada") is False
    memory.begin_turn(TurnCache(message_id="b"))

    assert list(memory.entity_workspace) == ["Bob"]


def test_a_turn_that_an_earlier_version_began_keeps_its_entities_when_it_begins_again() -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(1, raw_entities=[{"name": "Ada", "attributes": []}]))
    stored = memory.to_dict()
    del stored["current_turn"]["entities_before"]
    memory = WorkingMemory.from_dict(stored)

    assert WorkingMemory.from_dict(stored).forget_entity("Ada")
    memory.begin_turn(TurnCache(1))

    assert list(memory.entity_workspace) == ["Ada"]


def test_a_turn_is_not_begun_again_by_another_message() -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(1, message_id="a"))

    assert memory.begin_turn(TurnCache(1, message_id="b")) is False
    assert memory.turn_number == 1


def test_a_message_that_comes_again_after_a_later_turn_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = new_memory()
    for message in ("a", "b"):
        memory.begin_turn(TurnCache(message_id=message))

    assert memory.begin_turn(TurnCache(message_id="a")) is False
    assert not caplog.messages  # a transition that does not apply warns, or raises if it is strict
    assert memory.begin_turn(TurnCache(1)) is False
    assert "it is turn 1, and turn 2 has begun" in caplog.text
    assert memory.turns_by_message == {"a": 1, "b": 2}
