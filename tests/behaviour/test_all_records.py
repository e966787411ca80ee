"""All records of a store, as programs that show or move a whole store read and write them."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine import Conversation, Message, TurnTrace
from jazzmine.core.message_store import MessageStore
from jazzmine.records.base import RecordKind, snapshot
from jazzmine.records.hook_arguments import Turn
from tests.behaviour.apis import Api
from tests.behaviour.samples import NOW, conversation, full_trace, ids, message, messages, trace


async def all_of(api: Api, store: MessageStore, kind: RecordKind, size: int = 2) -> list[Any]:
    return [
        record
        async for _, batch in api.internal("maintenance").iter_records(store, [kind], size)
        for record in batch
    ]


async def store_many(
    store: MessageStore,
    conversations: list[Conversation] | None = None,
    messages: list[Message] | None = None,
    traces: list[TurnTrace] | None = None,
) -> None:
    turn = Turn(
        [snapshot(one, Conversation) for one in conversations or []],
        [snapshot(one, Message) for one in messages or []],
        [snapshot(one, TurnTrace) for one in traces or []],
    )
    await store.backend.store(turn)


# Reading


@pytest.mark.each_value
@pytest.mark.smoke
async def test_records_come_in_the_order_in_which_their_ids_were_first_stored(
    api: Api,
    store: MessageStore,
) -> None:
    for number, name in enumerate(["c", "a", "b"]):
        await store.store_conversation(conversation(name, last_updated_at=NOW - number))
        await store.store_message(message(f"m{name}", conversation_id=name, timestamp=NOW - number))
        await store.store_turn_trace(
            trace(f"m{name}", conversation_id=name, started_at_ms=NOW - number)
        )
    await store.store_conversation(conversation("c", title="changed"))
    await store.store_message(message("mc", conversation_id="c", original_content="changed"))

    assert ids(await all_of(api, store, "conversations")) == ["c", "a", "b"]
    assert ids(await all_of(api, store, "messages")) == ["mc", "ma", "mb"]
    assert ids(await all_of(api, store, "traces")) == [f"trace-of-m{name}" for name in "cab"]


# Writing


@pytest.mark.smoke
async def test_many_records_are_stored_in_their_order(api: Api, store: MessageStore) -> None:
    names = ["z", "y", "x", "a"]
    conversations = [conversation(name) for name in names]
    told = [message(f"m{name}", conversation_id=name) for name in names]
    traced = [full_trace(f"m{name}", conversation_id=name) for name in names]

    await store_many(store, conversations, told, traced)
    await store_many(store, conversations, told, traced)

    assert await all_of(api, store, "conversations") == conversations
    assert await all_of(api, store, "messages") == told
    assert await all_of(api, store, "traces") == traced


async def test_many_records_replace_those_that_are_stored(api: Api, chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2"))
    await chat.store_turn_trace(trace("m1"))

    again = [trace("m2"), trace("m1", id="another")]
    await store_many(chat, [conversation(title="new")], [message("m2", intent="new")], again)

    assert (await all_of(api, chat, "conversations"))[0].title == "new"
    assert [one.intent for one in await all_of(api, chat, "messages")] == ["unknown", "new"]
    assert await all_of(api, chat, "traces") == again
