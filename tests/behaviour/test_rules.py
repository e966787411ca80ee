"""Rules of every message store that no sequence of calls shows: errors, copies, calls at once."""

from __future__ import annotations

import pytest

from jazzmine import IntegrityError
from jazzmine.core.message_store import Conversation, Message, MessageStore, TraceFilter, TurnTrace
from tests.behaviour.apis import Api
from tests.behaviour.samples import (
    NOW,
    conversation,
    full_message,
    full_trace,
    ids,
    message,
    messages,
    trace,
)


async def test_the_extremes_of_time_are_in_order(chat: MessageStore) -> None:
    await chat.store_message(message("end", timestamp=2**63 - 1))
    await chat.store_message(message("epoch", timestamp=0))
    await chat.store_message(message("beginning", timestamp=-(2**63)))

    for listing in (chat.get_messages_by_conversation_id("c1"), chat.get_messages_by_user_id("u1")):
        assert ids(await listing) == ["beginning", "epoch", "end"]
    page = await chat.get_messages_by_conversation_id("c1", after="beginning", limit=1)
    assert ids(page) == ["epoch"]
    assert ids(await chat.get_immediate_context("c1", 1)) == ["end"]


async def test_many_messages_are_stored_and_found_at_once(chat: MessageStore) -> None:
    many = [message(f"m{number:04}", timestamp=NOW + number) for number in range(600)]

    await chat.store_messages(many)

    assert await chat.get_messages_by_conversation_id("c1") == many
    assert await chat.get_messages_by_ids(ids(many[::-1])) == many[::-1]
    assert [found async for found in chat.iter_messages("c1")] == many


# Integrity


@pytest.mark.smoke
async def test_an_error_names_what_is_missing(chat: MessageStore) -> None:
    for write in (chat.store_message, chat.update_message):
        with pytest.raises(IntegrityError, match="nowhere"):
            await write(message(conversation_id="nowhere"))
    with pytest.raises(IntegrityError, match="lost"):
        await chat.store_turn(messages=[message()], trace=trace("lost"))
    assert await chat.get_messages_by_user_id("u1") == []


@pytest.mark.smoke
async def test_an_error_tells_whose_a_taken_id_is(chat: MessageStore) -> None:
    await chat.store_conversation(conversation("c2"))
    await chat.store_turn(messages=[message("m1"), message("m2")], trace=trace("m1"))

    with pytest.raises(IntegrityError, match="'m1' is stored in another conversation"):
        await chat.store_message(message("m1", conversation_id="c2"))
    taken = trace("m1").model_copy(update={"message_id": "m2"})
    with pytest.raises(IntegrityError, match=r"trace .* belongs to another message"):
        await chat.store_turn_trace(taken)


async def test_a_message_never_moves_to_another_conversation(chat: MessageStore) -> None:
    await chat.store_conversation(conversation("c2"))
    await chat.store_message(message())
    moved = message(conversation_id="c2", user_id="u2")
    for write in (
        lambda: chat.store_message(moved),
        lambda: chat.store_messages([message("m2"), moved]),
        lambda: chat.append_messages("c2", [moved]),
        lambda: chat.store_turn(messages=[moved]),
    ):
        with pytest.raises(IntegrityError, match="m1"):
            await write()

        assert await chat.get_messages_by_user_id("u1") == [message()]
        assert await chat.get_messages_by_conversation_id("c2") == []


# Copies

Turn = tuple[Conversation, list[Message], TurnTrace]


def new_turn() -> Turn:
    nested = {"list": [1, {"deep": [2]}], "text": "as it was"}
    return conversation(metadata=nested), [full_message(metadata=nested)], full_trace()


def spoil(turn: Turn) -> None:
    """Change mutable parts at every level."""
    whole, said, traced = turn
    for metadata in (whole.metadata, said[0].metadata):
        metadata["text"] = "spoilt"
        metadata["list"][1]["deep"].append("spoilt")
    said[0].entities[0].attributes.append("spoilt")
    said.clear()
    traced.llm_calls[0].model = "spoilt"
    traced.llm_calls.pop()
    traced.tool_traces[0].final_data["rows"].append("spoilt")
    traced.slot_events[0].value.clear()


async def read(store: MessageStore) -> Turn:
    [whole] = await store.get_conversations()
    [traced] = await store.find_turn_traces(TraceFilter())
    return whole, await store.get_messages_by_conversation_id("c1"), traced


@pytest.mark.parametrize("appends", [False, True])
async def test_changing_what_was_stored_or_read_changes_nothing(
    store: MessageStore, appends: bool
) -> None:
    given, returned = new_turn(), []
    if appends:
        await store.store_conversation(given[0])
        returned = await store.append_messages("c1", given[1], trace=given[2])
    else:
        await store.store_turn(conversation=given[0], messages=given[1], trace=given[2])
    assert given == new_turn()

    spoil(given)
    if appends:
        spoil((new_turn()[0], returned, full_trace()))
    found = await read(store)
    assert found == new_turn()
    spoil(found)

    assert await read(store) == new_turn()


# Calls at once


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


@pytest.mark.smoke
async def test_a_reader_sees_all_of_a_batch_or_nothing_of_it(api: Api, chat: MessageStore) -> None:
    batches = [messages(*(f"{batch}{number}" for number in range(10))) for batch in "abcdef"]
    writes = [lambda batch=batch: chat.store_messages(batch) for batch in batches]
    reads = [lambda: chat.get_messages_by_conversation_id("c1")] * len(writes)

    mixed = [call for pair in zip(writes, reads, strict=True) for call in pair]
    outcomes = await api.gather(*mixed)

    seen = [len(outcome) for outcome in outcomes if outcome is not None]
    assert len(seen) == len(reads)
    assert [count % 10 for count in seen] == [0] * len(reads)


@pytest.mark.smoke
async def test_no_message_outlives_the_conversation_deleted_beside_it(
    api: Api, chat: MessageStore
) -> None:
    names = [f"m{number}" for number in range(10)]
    writes = [lambda m=m: chat.store_message(m) for m in messages(*names)]

    await api.settle(*writes[:5], lambda: chat.delete_conversation("c1"), *writes[5:])

    assert await chat.get_conversation_by_id("c1") is None
    assert await chat.get_messages_by_ids(names) == []
    assert await chat.get_messages_by_user_id("u1") == []
