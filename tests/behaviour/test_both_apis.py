"""Both APIs use the same data, and return records of the same classes."""

from __future__ import annotations

import asyncio
from typing import Any

import jazzmine.core.message_store as async_messages
import jazzmine.sync.message_store as sync_messages
from tests.behaviour.backends import Config
from tests.behaviour.samples import NOW, conversation, full_message, full_trace, ids, message


async def test_the_sync_store_reads_and_continues_data_of_the_async_one(
    config: Config,
) -> None:
    async with await async_messages.MessageStore.initialize(config) as store:
        await store.store_turn(
            conversation=conversation(), messages=[full_message()], trace=full_trace()
        )

    def go_on() -> Any:
        with sync_messages.MessageStore.initialize(config) as sync_store:
            found = (
                sync_store.get_message_by_id("m1"),
                sync_store.get_turn_trace_by_message_id("m1"),
            )
            sync_store.flag_message("m1", False)
            sync_store.store_message(message("m2"))
            return found

    found = await asyncio.to_thread(go_on)

    assert found == (full_message(), full_trace())
    async with await async_messages.MessageStore.initialize(config) as store:
        assert ids(await store.get_immediate_context("c1", 5)) == ["m1", "m2"]


async def test_the_async_store_reads_and_continues_data_of_the_sync_one(
    config: Config,
) -> None:
    def begin() -> None:
        with sync_messages.MessageStore.initialize(config) as sync_store:
            sync_store.store_turn(
                conversation=conversation(), messages=[full_message()], trace=full_trace()
            )

    await asyncio.to_thread(begin)

    async with await async_messages.MessageStore.initialize(config) as store:
        assert await store.get_message_by_id("m1") == full_message()
        assert await store.get_turn_trace_by_message_id("m1") == full_trace()
        await store.store_message(message("m2"))
        await store.delete_message("m1")

    def look() -> Any:
        with sync_messages.MessageStore.initialize(config) as sync_store:
            return sync_store.get_messages_by_user_id("u1"), sync_store.get_turn_traces_by_agent_id(
                "a1"
            )

    assert await asyncio.to_thread(look) == ([message("m2")], [])


async def test_both_apis_are_open_on_the_same_data_at_once(config: Config) -> None:
    async with await async_messages.MessageStore.initialize(config) as store:
        sync_store = await asyncio.to_thread(sync_messages.MessageStore.initialize, config)
        await store.store_conversation(conversation())

        await asyncio.gather(
            *(store.store_message(message(f"ours{n}", timestamp=NOW + n)) for n in range(8)),
            *(
                asyncio.to_thread(
                    sync_store.store_message, message(f"theirs{n}", timestamp=NOW + n)
                )
                for n in range(8)
            ),
        )

        ours = await store.get_messages_by_conversation_id("c1")
        theirs = await asyncio.to_thread(sync_store.get_messages_by_conversation_id, "c1")
        await asyncio.to_thread(sync_store.close)
        assert len(ours) == 16
        assert sorted(ids(ours)) == sorted(ids(theirs))
        assert [m.timestamp for m in ours] == sorted(m.timestamp for m in ours)
        assert ours == theirs


async def test_a_record_that_one_api_read_the_other_stores(config: Config) -> None:
    async with await async_messages.MessageStore.initialize(config) as store:
        await store.store_turn(conversation=conversation(), messages=[full_message()])
        found = await store.get_message_by_id("m1")
        assert found is not None

    def store_it_again() -> Any:
        with sync_messages.MessageStore.initialize(config) as sync_store:
            sync_store.store_message(found)
            return sync_store.get_message_by_id("m1")

    again = await asyncio.to_thread(store_it_again)

    assert again == found
    assert isinstance(again, async_messages.Message)
    assert isinstance(found, sync_messages.Message)


def test_a_message_of_one_api_is_one_of_the_other() -> None:
    made = sync_messages.Message.model_validate(message().model_dump())

    assert isinstance(made, async_messages.Message)
    assert async_messages.Message is sync_messages.Message
    assert async_messages.TraceFilter is sync_messages.TraceFilter
