"""The functions of a schema belong to it, and calls of one conversation do not hinder others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from jazzmine import MemoryItem
from jazzmine.errors import ConfigurationError, StoreUnavailableError
from jazzmine.records.messages import Message
from jazzmine.sync import LongTermMemoryStore, MessageStore
from tests.backends.postgres_apis import APIS, opened
from tests.backends.postgres_samples import behind, bound, config, conversation, message, trace
from tests.faults.sizes import TOLERANCE
from tests.servers import pgbouncer, postgres
from tests.servers.proxy import Proxy

NEW_SCHEMA = True  # the fixture `schema`

Admin = psycopg.Connection[Any]


def elsewhere(message_id: str, conversation_id: str = "c2") -> Message:
    return message(message_id).model_copy(update={"conversation_id": conversation_id})


WRITES: list[Callable[[Any, int], Any]] = [
    lambda store, n: store.append_messages("c1", [message(f"new {n}")]),
    lambda store, n: store.store_message(message(f"new {n}")),
    lambda store, n: store.erase_user("u"),
]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("number", range(len(WRITES)))
async def test_writes_to_a_locked_conversation_leave_connections_to_others(
    admin: Admin, schema: str, api: str, number: int
) -> None:
    async with opened(api, config(schema, pool_max=3, timeout=20.0)) as store:
        await store.store_conversation(conversation())
        free = conversation("free").model_copy(update={"user_id": "x"})
        await store.store_conversation(free)
        with admin.transaction():
            admin.execute(
                bound("SELECT FROM $schema.conversations WHERE id = 'c1' FOR UPDATE", schema)
            )
            tasks = [asyncio.ensure_future(WRITES[number](store, n)) for n in range(4)]
            await asyncio.sleep(0.3)
            # Without a free connection, these would fail at the deadline.
            await store.ping()
            await store.store_message(elsewhere("x", "free"))
            assert not any(task.done() for task in tasks)
        await asyncio.gather(*tasks)


def erase_while_given_away(admin: Admin, schema: str, store: Any, *tables: str) -> None:
    """Give a user's records to another, after the erasure has found them and waits for a lock."""
    with admin.transaction():
        for table in tables:
            merge = f"UPDATE $schema.{table} SET user_id = 'merged' WHERE user_id = 'u'"
            admin.execute(bound(merge, schema))
        erasing = threading.Thread(target=store.erase_user, args=("u",))
        erasing.start()
        time.sleep(0.3)
    erasing.join(10)
    assert not erasing.is_alive()


def test_a_user_whose_records_were_given_to_another_keeps_them(admin: Admin, schema: str) -> None:
    with MessageStore.initialize(config(schema)) as store:
        store.store_conversation(conversation())
        store.store_conversation(conversation("c2").model_copy(update={"user_id": "other"}))
        store.store_message(message("m1"))
        store.store_message(elsewhere("m2"))
        others = elsewhere("m3").model_copy(update={"user_id": "other"})
        of_others = trace("m3").model_copy(update={"conversation_id": "c2"})
        store.store_turn(messages=[others], trace=of_others)
        tables = ("conversations", "messages", "turn_traces")
        erase_while_given_away(admin, schema, store, *tables)
        assert len(store.get_messages_by_user_id("merged")) == 2
        assert len(store.get_conversations_by_user_id("merged")) == 1
        assert store.get_turn_trace_by_message_id("m3") is not None


def test_an_item_that_was_given_to_another_user_is_kept(admin: Admin, schema: str) -> None:
    with LongTermMemoryStore.initialize(config(schema)) as store:
        store.put(MemoryItem(namespace=("n",), key="k", value={}, user_id="u"))
        erase_while_given_away(admin, schema, store, "memory_items")
        assert store.get(("n",), "k") is not None


async def test_a_reply_that_arrives_slowly_is_not_waited_for_after_the_deadline(
    schema: str,
) -> None:
    with Proxy(postgres.port_of(postgres.dsn())) as proxy:
        async with opened("async", behind(proxy, schema, timeout=1.5)) as store:
            await store.store_conversation(conversation())
            long = message().model_copy(update={"original_content": "x" * 3_000_000})
            await store.store_message(long)
            proxy.drip = 0.2
            started = time.monotonic()
            with pytest.raises(StoreUnavailableError):
                await store.get_message_by_id("m1")
            assert time.monotonic() - started < 1.5 + 0.5 + TOLERANCE
            proxy.drip = 0.0


@pytest.mark.skipif(bool(pgbouncer.MISSING), reason=pgbouncer.MISSING or "it is there")
async def test_behind_a_pooler_the_error_of_prepared_statements_names_the_cure(
    schema: str,
) -> None:
    async def use() -> None:
        for _ in range(20):
            async with opened(
                "async", config(schema, dsn=pgbouncer.running(), pool_min=1)
            ) as store:
                await asyncio.gather(*(store.ping() for _ in range(10)))
                await store.store_conversation(conversation())

    with pytest.raises(ConfigurationError, match="set 'prepare' to False"):
        await use()
