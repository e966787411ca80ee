"""A whole turn is appended in one step: with its trace, and in place of what stood there before."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine import ConflictError, IntegrityError, NotFoundError
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import NOW, conversation, full_trace, ids, message, messages, trace
from tests.behaviour.support.sync_support import settle


def stored(store: MessageStore) -> list[str]:
    return ids(store.get_messages_by_conversation_id("c1"))


def test_a_trace_is_stored_with_its_turn(chat: MessageStore) -> None:
    chat.append_messages("c1", messages("m1", "m2"), trace=full_trace("m2"))

    assert chat.get_turn_trace_by_message_id("m2") == full_trace("m2")


def test_the_trace_of_another_message_is_refused(chat: MessageStore) -> None:
    chat.store_message(message("m0"))

    with pytest.raises(ValueError, match="m0"):
        chat.append_messages("c1", [message("m1")], trace=trace("m0"))

    assert stored(chat) == ["m0"]


def test_the_trace_of_another_conversation_is_refused(chat: MessageStore) -> None:
    with pytest.raises(ValueError, match="c2"):
        chat.append_messages("c1", [message("m1")], trace=trace("m1", conversation_id="c2"))


def test_a_turn_whose_trace_belongs_to_another_message_is_not_appended(
    chat: MessageStore,
) -> None:
    chat.append_messages("c1", [message("m1")], trace=trace("m1", id="t1"))

    with pytest.raises(IntegrityError, match="t1"):
        chat.append_messages("c1", [message("m2")], trace=trace("m2", id="t1"))

    assert stored(chat) == ["m1"]


@pytest.mark.smoke
def test_an_answer_is_regenerated_in_one_step(chat: MessageStore) -> None:
    chat.append_messages("c1", messages("q1", "a1"), trace=trace("a1", id="t1"))

    appended = chat.append_messages(
        "c1", [message("a2")], trace=trace("a2", id="t2"), replace_after="q1"
    )

    assert ids(appended) == ["a2"]
    assert stored(chat) == ["q1", "a2"]
    assert chat.get_turn_trace_by_id("t1") is None
    assert chat.get_turn_trace_by_id("t2") == trace("a2", id="t2")


def test_a_trace_that_is_replaced_leaves_its_id_to_the_next(chat: MessageStore) -> None:
    chat.append_messages("c1", messages("q1", "a1"), trace=trace("a1", id="t1"))

    chat.append_messages(
        "c1", [message("a2")], trace=trace("a2", id="t1"), replace_after="q1"
    )

    assert chat.get_turn_trace_by_id("t1") == trace("a2", id="t1")


def test_everything_is_replaced(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2", timestamp=NOW + 9))

    (appended,) = chat.append_messages("c1", [message("m3")], replace_after=None)

    assert stored(chat) == ["m3"]
    assert appended.timestamp == NOW


def test_a_replacement_is_not_older_than_what_is_left(chat: MessageStore) -> None:
    chat.store_messages([message("m1", timestamp=NOW + 5), message("m2", timestamp=NOW + 9)])

    (appended,) = chat.append_messages("c1", [message("m3")], replace_after="m1")

    assert appended.timestamp == NOW + 5
    assert chat.get_message_by_id("m3") == appended


def test_after_the_newest_message_nothing_is_deleted(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2"))

    chat.append_messages("c1", [message("m3")], replace_after="m2", expected_last="m2")

    assert stored(chat) == ["m1", "m2", "m3"]


def test_a_replacement_expects_what_was_the_newest_before(chat: MessageStore) -> None:
    chat.store_messages(messages("q1", "a1", "q2"))

    with pytest.raises(ConflictError) as caught:
        chat.append_messages("c1", [message("a2")], replace_after="q1", expected_last="a1")

    assert caught.value.newest_id == "q2"
    assert stored(chat) == ["q1", "a1", "q2"]


@pytest.mark.parametrize("unknown", ["nowhere", "elsewhere"])
def test_a_replacement_after_an_unknown_message_is_refused(
    chat: MessageStore, unknown: str
) -> None:
    chat.store_conversation(conversation("c2"))
    chat.store_messages([message("m1"), message("elsewhere", conversation_id="c2")])

    with pytest.raises(NotFoundError, match=unknown):
        chat.append_messages("c1", [message("m2")], replace_after=unknown)

    assert stored(chat) == ["m1"]


def test_repeating_a_replacement_changes_nothing(chat: MessageStore) -> None:
    chat.store_messages(messages("q1", "a1"))
    turn: dict[str, Any] = {"replace_after": "q1", "trace": trace("a2"), "expected_last": "a1"}
    first = chat.append_messages("c1", [message("a2")], **turn)
    chat.append_messages("c1", [message("q2")])

    again = chat.append_messages("c1", [message("a2")], **turn)

    assert again == first
    assert stored(chat) == ["q1", "a2", "q2"]


@pytest.mark.smoke
def test_of_regenerations_at_once_one_takes_place(chat: MessageStore) -> None:
    chat.store_messages(messages("q1", "a0"))
    names = ["a1", "a2", "a3", "a4"]

    outcomes = settle(
        *(
            lambda name=name: chat.append_messages(
                "c1", [message(name)], replace_after="q1", expected_last="a0"
            )
            for name in names
        )
    )

    done = [
        name
        for name, outcome in zip(names, outcomes, strict=True)
        if not isinstance(outcome, ConflictError)
    ]
    assert len(done) == 1
    assert stored(chat) == ["q1", *done]


@pytest.mark.parametrize("wrong", [5, {"$ne": "m1"}, ["m1"]], ids=repr)
def test_replace_after_is_an_id(chat: MessageStore, wrong: Any) -> None:
    with pytest.raises(TypeError, match="replace_after"):
        chat.append_messages("c1", [message()], replace_after=wrong)
