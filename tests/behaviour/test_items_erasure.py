"""Items are erased with their user, pruned when they have expired, and end with their store."""

from __future__ import annotations

import time

import pytest

from jazzmine.core.long_term_memory import LongTermMemoryStore, MemoryItem, PutItem
from jazzmine.errors import StoreClosedError
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config


def item(key: str, user_id: str | None = None, expires_at: int | None = None) -> MemoryItem:
    return MemoryItem(
        namespace=("n",), key=key, value={"k": key}, user_id=user_id, expires_at=expires_at
    )


async def test_all_items_of_a_user_are_erased(items: LongTermMemoryStore) -> None:
    await items.apply([PutItem(item(f"{n:04}", "ann")) for n in range(1200)])
    await items.put(item("expired", "ann", expires_at=1))
    kept = await items.apply([PutItem(item("x")), PutItem(item("y", "anna"))])

    assert await items.erase_user("ann") == 1201
    assert await items.erase_user("ann") == 0

    assert await items.list_items() == kept


@pytest.mark.smoke
async def test_expired_items_are_pruned(items: LongTermMemoryStore) -> None:
    later = time.time_ns() // 1_000_000 + 3_600_000
    expired = [PutItem(item(f"{n}", expires_at=n + 1)) for n in range(5)]
    kept = await items.apply([PutItem(item("kept", expires_at=later)), PutItem(item("x"))])
    await items.apply(expired)

    assert await items.prune_expired(limit=2) == 2
    assert await items.prune_expired(limit=0) == 0
    assert await items.prune_expired() == 3
    assert await items.prune_expired() == 0

    assert await items.list_items() == kept


async def test_a_store_is_pinged_and_closed(api: Api, item_config: Config) -> None:
    async with await api.LongTermMemoryStore.initialize(item_config) as items:
        await items.ping()
    await items.close()

    for call in (items.ping, items.list_items, lambda: items.put(item("a"))):
        with pytest.raises(StoreClosedError):
            await call()
