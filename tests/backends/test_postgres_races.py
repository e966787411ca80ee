"""Concurrent calls in PostgreSQL, and records that are too large."""

from __future__ import annotations

import asyncio

import pytest

from jazzmine.core.message_store import MessageStore
from jazzmine.errors import (
    IntegrityError,
    RecordTooLargeError,
)
from tests.backends.postgres_samples import config, conversation, message, trace


async def test_one_trace_stored_many_times_at_once_is_stored_once(schema: str) -> None:
    async with await MessageStore.initialize(config(schema, pool_min=10)) as store:
        await store.store_conversation(conversation())
        await store.store_messages([message(f"m{n}") for n in range(5)])
        for n in range(5):
            one = trace(f"m{n}")
            await asyncio.gather(*(store.store_turn_trace(one) for _ in range(10)))
        assert len(await store.get_turn_traces_by_agent_id("a")) == 5


async def test_messages_stored_in_opposite_orders_at_once_are_stored(schema: str) -> None:
    # The server ends one of two that wait for each other, and its call is repeated.
    async with await MessageStore.initialize(config(schema, pool_min=4)) as store:
        await store.store_conversation(conversation())
        given = [message(f"m{n}") for n in range(200)]
        await store.store_messages(given)
        calls = [store.store_messages(given[:: 1 - 2 * (n % 2)]) for n in range(6)]
        await asyncio.gather(*calls)
        assert await store.get_messages_by_conversation_id("c1") == given


async def test_an_id_that_no_index_holds_is_too_large(schema: str) -> None:
    long = "".join(chr(0x4E00 + (n * n * 7919) % 20_000) for n in range(20_000))
    async with await MessageStore.initialize(config(schema)) as store:
        with pytest.raises(RecordTooLargeError):
            await store.store_conversation(conversation(long))
        assert await store.get_conversation_by_id(long) is None


# Writes that wait for a free connection


async def test_a_write_that_is_refused_fails_alone(schema: str) -> None:
    async with await MessageStore.initialize(config(schema, pool_min=1, pool_max=1)) as store:
        await store.store_conversation(conversation())
        lost = message("lost").model_copy(update={"conversation_id": "nowhere"})
        given = [message("m0"), message("m1"), lost, message("m2")]
        calls = (store.store_message(one) for one in given)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [
            type(None),
            type(None),
            IntegrityError,
            type(None),
        ]
        held = await store.get_messages_by_conversation_id("c1")
        assert [one.id for one in held] == ["m0", "m1", "m2"]


async def test_a_cancelled_write_that_was_waiting_is_withdrawn(schema: str) -> None:
    async with await MessageStore.initialize(config(schema, pool_min=1, pool_max=1)) as store:
        await store.store_conversation(conversation())
        tasks = [asyncio.ensure_future(store.store_message(message(f"m{n}"))) for n in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        held = await store.get_messages_by_conversation_id("c1")
        assert [one.id for one in held] == ["m0", "m2"]


# Records that are stored again


@pytest.mark.parametrize(("before", "after"), [(0.0, -0.0), (1, 1.0), (1, True), (None, "")])
async def test_an_equal_value_of_another_form_is_written(
    schema: str, before: object, after: object
) -> None:
    async with await MessageStore.initialize(config(schema)) as store:
        await store.store_conversation(conversation())
        for value in (before, after):
            held = message().model_copy(update={"metadata": {"held": value}})
            await store.store_message(held)
            assert repr(await store.get_message_by_id("m1")) == repr(held)


async def test_a_superseded_message_needs_its_conversation(schema: str) -> None:
    lost = message().model_copy(update={"conversation_id": "nowhere \0"})
    own = message().model_copy(update={"conversation_id": "c2"})
    async with await MessageStore.initialize(config(schema)) as store:
        await store.store_conversation(conversation())
        with pytest.raises(IntegrityError, match=r"nowhere \\x00"):
            await store.store_messages([lost, message()])
        with pytest.raises(IntegrityError, match=r"nowhere \\x00"):
            await store.store_turn(conversation=conversation("c2"), messages=[lost, own])
        assert await store.get_message_by_id("m1") is None
        assert await store.get_conversation_by_id("c2") is None
