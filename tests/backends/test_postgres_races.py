"""Concurrent calls in PostgreSQL, and records that are too large."""

from __future__ import annotations

import asyncio

import pytest

from jazzmine.core.message_store import MessageStore
from jazzmine.errors import RecordTooLargeError
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
