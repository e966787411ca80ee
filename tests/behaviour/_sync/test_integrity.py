"""A record that refers to one that is not stored is refused, and nothing is written."""

from __future__ import annotations

import pytest

from jazzmine import IntegrityError, JazzmineError
from jazzmine.sync.message_store import Conversation, MessageStore
from tests.behaviour.samples import conversation, ids, message, messages, trace
from tests.behaviour.support.sync_support import settle

each_write = pytest.mark.parametrize("write", ["store_message", "update_message"])


@pytest.mark.smoke
@each_write
def test_a_message_of_no_stored_conversation_is_refused(
    chat: MessageStore, write: str
) -> None:
    with pytest.raises(IntegrityError, match=r"nowhere.*; store the conversation first") as caught:
        getattr(chat, write)(message(conversation_id="nowhere"))

    assert isinstance(caught.value, JazzmineError)
    assert chat.get_message_by_id("m1") is None
    assert chat.get_messages_by_conversation_id("nowhere") == []
    assert chat.get_messages_by_user_id("u1") == []


@each_write
def test_a_stored_message_stays_as_it_is_when_its_move_is_refused(
    chat: MessageStore, write: str
) -> None:
    chat.store_message(message())

    with pytest.raises(IntegrityError, match="nowhere"):
        getattr(chat, write)(message(conversation_id="nowhere"))

    assert chat.get_messages_by_conversation_id("c1") == [message()]


def test_a_message_of_a_deleted_conversation_is_refused(chat: MessageStore) -> None:
    chat.store_message(message("m1"))
    chat.delete_conversation("c1")

    with pytest.raises(IntegrityError, match="c1"):
        chat.store_message(message("m2"))

    assert chat.get_messages_by_ids(["m1", "m2"]) == []


def test_a_message_is_stored_once_its_conversation_is(store: MessageStore) -> None:
    with pytest.raises(IntegrityError):
        store.store_message(message())
    store.store_conversation(conversation())

    store.store_message(message())

    assert store.get_message_by_id("m1") == message()


@pytest.mark.smoke
def test_a_trace_of_no_stored_message_is_refused(chat: MessageStore) -> None:
    with pytest.raises(IntegrityError, match="m1"):
        chat.store_turn_trace(trace("m1"))

    assert chat.get_turn_trace_by_id("trace-of-m1") is None
    assert chat.get_turn_traces_by_conversation_id("c1") == []
    assert chat.get_turn_traces_by_agent_id("a1") == []


def test_a_trace_of_a_deleted_message_is_refused(chat: MessageStore) -> None:
    chat.store_message(message())
    chat.delete_message("m1")

    with pytest.raises(IntegrityError, match="m1"):
        chat.store_turn_trace(trace("m1"))

    assert chat.get_turn_trace_by_id("trace-of-m1") is None


def test_a_trace_id_that_belongs_to_another_message_is_refused(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2"))
    chat.store_turn_trace(trace("m1", id="t1"))

    with pytest.raises(IntegrityError, match="t1"):
        chat.store_turn_trace(trace("m2", id="t1"))

    assert chat.get_turn_trace_by_id("t1") == trace("m1", id="t1")
    assert chat.get_turn_trace_by_message_id("m2") is None


def test_a_refused_trace_leaves_the_one_that_its_message_has(chat: MessageStore) -> None:
    chat.store_messages(messages("m1", "m2"))
    chat.store_turn_trace(trace("m1", id="t1"))
    chat.store_turn_trace(trace("m2", id="t2"))

    with pytest.raises(IntegrityError, match="t1"):
        chat.store_turn_trace(trace("m2", id="t1"))

    assert chat.get_turn_trace_by_message_id("m2") == trace("m2", id="t2")
    assert ids(chat.get_turn_traces_by_conversation_id("c1")) == ["t1", "t2"]


def test_a_trace_that_names_another_conversation_than_its_message_is_refused(
    chat: MessageStore,
) -> None:
    chat.store_conversation(conversation("c2"))
    chat.store_message(message())

    with pytest.raises(IntegrityError, match="c2"):
        chat.store_turn_trace(trace(conversation_id="c2"))
    with pytest.raises(IntegrityError, match="c2"):
        chat.store_turn(messages=[message("m2")], trace=trace("m2", conversation_id="c2"))

    assert chat.get_turn_traces_by_conversation_id("c2") == []
    assert ids(chat.get_messages_by_user_id("u1")) == ["m1"]


def test_a_stored_trace_never_moves_to_another_conversation(chat: MessageStore) -> None:
    chat.store_conversation(conversation("c2"))
    chat.store_turn(messages=[message()], trace=trace())

    with pytest.raises(IntegrityError):
        chat.store_turn_trace(trace(conversation_id="c2"))

    assert chat.get_turn_trace_by_message_id("m1") == trace()


each_bulk_write = pytest.mark.parametrize(
    ("write", "besides"),
    [
        pytest.param("store_messages", {}, id="store_messages"),
        pytest.param("store_turn", {}, id="store_turn"),
        pytest.param("store_turn", {"conversation": conversation("c2")}, id="with a conversation"),
    ],
)


@pytest.mark.each_value
@each_bulk_write
@pytest.mark.parametrize("orphan", [0, 1, 2], ids=["the first", "a middle one", "the last"])
def test_of_messages_with_one_id_each_needs_its_conversation(
    chat: MessageStore, write: str, besides: dict[str, Conversation], orphan: int
) -> None:
    given = [message("m1", original_content=text) for text in ("a", "b", "c")]
    given[orphan].conversation_id = "nowhere"

    with pytest.raises(IntegrityError):
        getattr(chat, write)(messages=[message("m0"), *given, message("m2")], **besides)

    assert chat.get_messages_by_user_id("u1") == []
    assert chat.get_conversation_by_id("c2") is None


@each_bulk_write
def test_of_messages_with_one_id_the_last_is_stored(
    chat: MessageStore, write: str, besides: dict[str, Conversation]
) -> None:
    last = message("m1", original_content="the last")

    getattr(chat, write)(messages=[message("m1"), message("m0"), last], **besides)

    assert chat.get_messages_by_conversation_id("c1") == [last, message("m0")]


@pytest.mark.smoke
@each_bulk_write
def test_messages_with_one_id_in_two_conversations_are_refused(
    chat: MessageStore, write: str, besides: dict[str, Conversation]
) -> None:
    chat.store_conversation(conversation("c2"))
    given = [message("m1", conversation_id="c2"), message("m1")]

    with pytest.raises(IntegrityError, match="m1"):
        getattr(chat, write)(messages=given, **besides)

    assert chat.get_messages_by_user_id("u1") == []


@pytest.mark.smoke
def test_of_simultaneous_messages_with_one_id_each_needs_its_conversation(
    chat: MessageStore,
) -> None:
    owners = ["nowhere", "c1"] * 20
    given = [message("m1", conversation_id=owner) for owner in owners]

    outcomes = settle(*(lambda m=m: chat.store_message(m) for m in given))

    refused = [isinstance(outcome, IntegrityError) for outcome in outcomes]
    assert refused == [owner == "nowhere" for owner in owners]
    assert chat.get_messages_by_user_id("u1") == [message("m1")]


def test_a_store_is_usable_after_a_refusal(chat: MessageStore) -> None:
    with pytest.raises(IntegrityError):
        chat.store_message(message(conversation_id="nowhere"))

    chat.store_message(message())

    assert chat.get_messages_by_user_id("u1") == [message()]
