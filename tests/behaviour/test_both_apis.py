"""The two faces work on the same data, and hand out records of the same classes."""

from __future__ import annotations

import asyncio
from typing import Any

import jazzmine.core.message_store as awaitable
import jazzmine.sync.message_store as blocking
from tests.behaviour.backends import Config
from tests.behaviour.samples import NOW, conversation, full_message, full_trace, ids, message


async def test_what_the_awaitable_store_wrote_the_blocking_one_reads_and_goes_on_with(
    config: Config,
) -> None:
    async with await awaitable.MessageStore.initialize(config) as store:
        await store.store_turn(
            conversation=conversation(), messages=[full_message()], trace=full_trace()
        )

    def go_on() -> Any:
        with blocking.MessageStore.initialize(config) as twin:
            found = twin.get_message_by_id("m1"), twin.get_turn_trace_by_message_id("m1")
            twin.flag_message("m1", False)
            twin.store_message(message("m2"))
            return found

    found = await asyncio.to_thread(go_on)

    assert found == (full_message(), full_trace())
    async with await awaitable.MessageStore.initialize(config) as store:
        assert ids(await store.get_immediate_context("c1", 5)) == ["m1", "m2"]


async def test_what_the_blocking_store_wrote_the_awaitable_one_reads_and_goes_on_with(
    config: Config,
) -> None:
    def begin() -> None:
        with blocking.MessageStore.initialize(config) as twin:
            twin.store_turn(
                conversation=conversation(), messages=[full_message()], trace=full_trace()
            )

    await asyncio.to_thread(begin)

    async with await awaitable.MessageStore.initialize(config) as store:
        assert await store.get_message_by_id("m1") == full_message()
        assert await store.get_turn_trace_by_message_id("m1") == full_trace()
        await store.store_message(message("m2"))
        await store.delete_message("m1")

    def look() -> Any:
        with blocking.MessageStore.initialize(config) as twin:
            return twin.get_messages_by_user_id("u1"), twin.get_turn_traces_by_agent_id("a1")

    assert await asyncio.to_thread(look) == ([message("m2")], [])


async def test_both_faces_are_open_on_the_same_data_at_once(config: Config) -> None:
    async with await awaitable.MessageStore.initialize(config) as store:
        twin = await asyncio.to_thread(blocking.MessageStore.initialize, config)
        await store.store_conversation(conversation())

        await asyncio.gather(
            *(store.store_message(message(f"ours{n}", timestamp=NOW + n)) for n in range(8)),
            *(
                asyncio.to_thread(twin.store_message, message(f"theirs{n}", timestamp=NOW + n))
                for n in range(8)
            ),
        )

        ours = await store.get_messages_by_conversation_id("c1")
        theirs = await asyncio.to_thread(twin.get_messages_by_conversation_id, "c1")
        await asyncio.to_thread(twin.close)
        assert len(ours) == 16
        assert sorted(ids(ours)) == sorted(ids(theirs))
        assert [m.timestamp for m in ours] == sorted(m.timestamp for m in ours)
        assert ours == theirs


async def test_a_record_that_one_face_read_the_other_stores(config: Config) -> None:
    async with await awaitable.MessageStore.initialize(config) as store:
        await store.store_turn(conversation=conversation(), messages=[full_message()])
        found = await store.get_message_by_id("m1")
        assert found is not None

    def store_it_again() -> Any:
        with blocking.MessageStore.initialize(config) as twin:
            twin.store_message(found)
            return twin.get_message_by_id("m1")

    again = await asyncio.to_thread(store_it_again)

    assert again == found
    assert isinstance(again, awaitable.Message)
    assert isinstance(found, blocking.Message)


def test_a_message_of_one_face_is_one_of_the_other() -> None:
    made = blocking.Message.model_validate(message().model_dump())

    assert isinstance(made, awaitable.Message)
    assert awaitable.Message is blocking.Message
    assert awaitable.TraceFilter is blocking.TraceFilter
