"""A record that refers to one that is not stored is refused, and nothing is written."""

from __future__ import annotations

import pytest

from jazzmine import IntegrityError, JazzmineError
from jazzmine.core.message_store import Conversation, MessageStore
from tests.behaviour.apis import Api
from tests.behaviour.samples import conversation, ids, message, messages, trace

each_write = pytest.mark.parametrize("write", ["store_message", "update_message"])


@pytest.mark.smoke
@each_write
async def test_a_message_of_no_stored_conversation_is_refused(
    chat: MessageStore, write: str
) -> None:
    with pytest.raises(IntegrityError, match=r"nowhere.*; store the conversation first") as caught:
        await getattr(chat, write)(message(conversation_id="nowhere"))

    assert isinstance(caught.value, JazzmineError)
    assert await chat.get_message_by_id("m1") is None
    assert await chat.get_messages_by_conversation_id("nowhere") == []
    assert await chat.get_messages_by_user_id("u1") == []


@each_write
async def test_a_stored_message_stays_as_it_is_when_its_move_is_refused(
    chat: MessageStore, write: str
) -> None:
    await chat.store_message(message())

    with pytest.raises(IntegrityError, match="nowhere"):
        await getattr(chat, write)(message(conversation_id="nowhere"))

    assert await chat.get_messages_by_conversation_id("c1") == [message()]


async def test_a_message_of_a_deleted_conversation_is_refused(chat: MessageStore) -> None:
    await chat.store_message(message("m1"))
    await chat.delete_conversation("c1")

    with pytest.raises(IntegrityError, match="c1"):
        await chat.store_message(message("m2"))

    assert await chat.get_messages_by_ids(["m1", "m2"]) == []


async def test_a_message_is_stored_once_its_conversation_is(store: MessageStore) -> None:
    with pytest.raises(IntegrityError):
        await store.store_message(message())
    await store.store_conversation(conversation())

    await store.store_message(message())

    assert await store.get_message_by_id("m1") == message()


@pytest.mark.smoke
async def test_a_trace_of_no_stored_message_is_refused(chat: MessageStore) -> None:
    with pytest.raises(IntegrityError, match="m1"):
        await chat.store_turn_trace(trace("m1"))

    assert await chat.get_turn_trace_by_id("trace-of-m1") is None
    assert await chat.get_turn_traces_by_conversation_id("c1") == []
    assert await chat.get_turn_traces_by_agent_id("a1") == []


async def test_a_trace_of_a_deleted_message_is_refused(chat: MessageStore) -> None:
    await chat.store_message(message())
    await chat.delete_message("m1")

    with pytest.raises(IntegrityError, match="m1"):
        await chat.store_turn_trace(trace("m1"))

    assert await chat.get_turn_trace_by_id("trace-of-m1") is None


async def test_a_trace_id_that_belongs_to_another_message_is_refused(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2"))
    await chat.store_turn_trace(trace("m1", id="t1"))

    with pytest.raises(IntegrityError, match="t1"):
        await chat.store_turn_trace(trace("m2", id="t1"))

    assert await chat.get_turn_trace_by_id("t1") == trace("m1", id="t1")
    assert await chat.get_turn_trace_by_message_id("m2") is None


async def test_a_refused_trace_leaves_the_one_that_its_message_has(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2"))
    await chat.store_turn_trace(trace("m1", id="t1"))
    await chat.store_turn_trace(trace("m2", id="t2"))

    with pytest.raises(IntegrityError, match="t1"):
        await chat.store_turn_trace(trace("m2", id="t1"))

    assert await chat.get_turn_trace_by_message_id("m2") == trace("m2", id="t2")
    assert ids(await chat.get_turn_traces_by_conversation_id("c1")) == ["t1", "t2"]


async def test_a_trace_that_names_another_conversation_than_its_message_is_refused(
    chat: MessageStore,
) -> None:
    await chat.store_conversation(conversation("c2"))
    await chat.store_message(message())

    with pytest.raises(IntegrityError, match="c2"):
        await chat.store_turn_trace(trace(conversation_id="c2"))
    with pytest.raises(IntegrityError, match="c2"):
        await chat.store_turn(messages=[message("m2")], trace=trace("m2", conversation_id="c2"))

    assert await chat.get_turn_traces_by_conversation_id("c2") == []
    assert ids(await chat.get_messages_by_user_id("u1")) == ["m1"]


async def test_a_stored_trace_never_moves_to_another_conversation(chat: MessageStore) -> None:
    await chat.store_conversation(conversation("c2"))
    await chat.store_turn(messages=[message()], trace=trace())

    with pytest.raises(IntegrityError):
        await chat.store_turn_trace(trace(conversation_id="c2"))

    assert await chat.get_turn_trace_by_message_id("m1") == trace()


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
async def test_of_messages_with_one_id_each_needs_its_conversation(
    chat: MessageStore, write: str, besides: dict[str, Conversation], orphan: int
) -> None:
    given = [message("m1", original_content=text) for text in ("a", "b", "c")]
    given[orphan].conversation_id = "nowhere"

    with pytest.raises(IntegrityError):
        await getattr(chat, write)(messages=[message("m0"), *given, message("m2")], **besides)

    assert await chat.get_messages_by_user_id("u1") == []
    assert await chat.get_conversation_by_id("c2") is None


@each_bulk_write
async def test_of_messages_with_one_id_the_last_is_stored(
    chat: MessageStore, write: str, besides: dict[str, Conversation]
) -> None:
    last = message("m1", original_content="the last")

    await getattr(chat, write)(messages=[message("m1"), message("m0"), last], **besides)

    assert await chat.get_messages_by_conversation_id("c1") == [last, message("m0")]


@pytest.mark.smoke
@each_bulk_write
async def test_messages_with_one_id_in_two_conversations_are_refused(
    chat: MessageStore, write: str, besides: dict[str, Conversation]
) -> None:
    await chat.store_conversation(conversation("c2"))
    given = [message("m1", conversation_id="c2"), message("m1")]

    with pytest.raises(IntegrityError, match="m1"):
        await getattr(chat, write)(messages=given, **besides)

    assert await chat.get_messages_by_user_id("u1") == []


@pytest.mark.smoke
async def test_of_simultaneous_messages_with_one_id_each_needs_its_conversation(
    api: Api,
    chat: MessageStore,
) -> None:
    owners = ["nowhere", "c1"] * 20
    given = [message("m1", conversation_id=owner) for owner in owners]

    outcomes = await api.settle(*(lambda m=m: chat.store_message(m) for m in given))

    refused = [isinstance(outcome, IntegrityError) for outcome in outcomes]
    assert refused == [owner == "nowhere" for owner in owners]
    assert await chat.get_messages_by_user_id("u1") == [message("m1")]


async def test_a_store_is_usable_after_a_refusal(chat: MessageStore) -> None:
    with pytest.raises(IntegrityError):
        await chat.store_message(message(conversation_id="nowhere"))

    await chat.store_message(message())

    assert await chat.get_messages_by_user_id("u1") == [message()]
