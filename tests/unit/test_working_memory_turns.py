from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.records.enums import ConversationStatus, FlowStatus
from jazzmine.records.flow import ActiveFlowState, PendingConfirmation
from jazzmine.records.turn import TopicShift, TurnCache, WorkspaceEntity
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


def test_a_turn_that_does_not_continue_adds_a_topic() -> None:
    memory = new_memory()

    memory.begin_turn(TurnCache(1, is_continuation=True))
    assert memory.topic_count == 0
    memory.begin_turn(TurnCache(2, intent="book", is_continuation=False))

    assert memory.topic_history == [TopicShift(2, "book")]
    assert memory.topic_count == 1


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


def test_an_expired_confirmation_leaves_a_flow_alone_that_does_not_wait() -> None:
    memory = new_memory()
    memory.request_confirmation(PendingConfirmation("", "Sure?", {}, 1))
    memory.start_flow(ActiveFlowState("f1", "booking", "flow"))

    memory.begin_turn(TurnCache(9))

    assert memory.pending_confirmation is None
    assert memory.is_in_flow
    assert memory.status is ConversationStatus.IN_FLOW


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


def test_a_turn_that_cannot_archive_the_flow_changes_nothing() -> None:
    memory = in_flow()
    assert memory.active_flow is not None
    memory.active_flow.branch_results["branch_1"] = None
    vars(memory.active_flow)["flow_name"] = 7
    before = (memory.turn_number, memory.active_flow, memory.last_updated)

    with pytest.raises(ValidationError, match="flow_name"):
        memory.begin_turn(TurnCache(1, is_cancellation=True))

    assert (memory.turn_number, memory.active_flow, memory.last_updated) == before


def test_a_cache_made_invalid_in_place_is_refused_by_name() -> None:
    memory = new_memory()
    cache = TurnCache(1)
    cache.flow_candidates.append({"score": float("nan")})

    with pytest.raises(ValidationError, match="flow_candidates"):
        memory.begin_turn(cache)

    assert memory.current_turn is None


def test_ending_a_turn_remembers_the_reply() -> None:
    memory = new_memory()

    applied = memory.end_turn("Done.", "inform")

    assert applied is True
    assert memory.last_agent_response == "Done."
    assert memory.last_agent_intent == "inform"
    assert memory.last_updated > 1.0


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


def test_the_expiry_is_logged_with_the_conversation(caplog: pytest.LogCaptureFixture) -> None:
    memory = awaiting_confirmation(requested_at_turn=1)

    with caplog.at_level(logging.INFO, "jazzmine"):
        memory.begin_turn(TurnCache(4))

    assert caplog.messages == ["'conversation': the confirmation expired in turn 4"]


def test_an_active_flow_is_interruptible_only_while_it_collects_slots() -> None:
    memory = in_flow()
    assert memory.active_flow is not None
    assert not memory.current_flow_can_be_interrupted

    memory.active_flow.status = FlowStatus.COLLECTING_SLOTS

    assert memory.current_flow_can_be_interrupted
    assert new_memory().current_flow_can_be_interrupted


def test_a_turn_is_known_by_its_message() -> None:
    """The user's message is delivered twice, and another one comes between."""
    memory = new_memory()
    for message in ("a", "a", "b", "b"):
        assert memory.begin_turn(TurnCache(message_id=message, is_continuation=False)) is True
    assert (memory.turn_number, memory.topic_count) == (2, 2)
    before = memory.to_dict()

    assert memory.begin_turn(TurnCache(message_id="a", is_cancellation=True)) is False

    assert memory.to_dict() == before


@pytest.mark.parametrize("late", [TurnCache(1), TurnCache(2), TurnCache(2, message_id="c")])
def test_a_number_that_is_lower_or_taken_does_not_apply(late: TurnCache) -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(message_id="a"))
    memory.begin_turn(TurnCache(message_id="b"))
    before = memory.to_dict()

    assert memory.begin_turn(late) is False
    assert memory.to_dict() == before


def test_a_question_does_not_expire_by_a_message_that_comes_twice() -> None:
    memory = in_flow()
    memory.begin_turn(TurnCache(message_id="a"))
    memory.request_confirmation(PendingConfirmation("f1", "Book?", {}, 1, timeout_turns=2))

    for _ in range(5):
        memory.begin_turn(TurnCache(message_id="b"))

    assert memory.confirm_action() is True


def test_an_entity_is_forgotten_also_where_the_turn_begins_again() -> None:
    memory = new_memory()
    memory.begin_turn(TurnCache(message_id="a", raw_entities=[entity("Ada"), entity("Bob")]))
    memory.begin_turn(TurnCache(message_id="b"))

    assert memory.forget_entity("Ada") is True
    assert memory.forget_entity("Ada") is False
    memory.begin_turn(TurnCache(message_id="b"))

    assert list(memory.entity_workspace) == ["Bob"]
