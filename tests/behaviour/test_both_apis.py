"""Both APIs use the same data, and return records of the same classes."""

from __future__ import annotations

import asyncio
from typing import Any

import jazzmine.core.message_store as async_messages
import jazzmine.sync.message_store as sync_messages
from tests.behaviour.backends import Config
from tests.behaviour.samples import NOW, conversation, full_message, ids, message


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
