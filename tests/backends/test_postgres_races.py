"""Concurrent calls in PostgreSQL, and records that are too large."""

from __future__ import annotations

import asyncio

import pytest

from jazzmine.core.message_store import MessageStore
from jazzmine.errors import (
    IntegrityError,
    RecordTooLargeError,
)
from tests.backends.postgres_samples import config, conversation, message


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
