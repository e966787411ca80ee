"""Items that are moved stay what they are, and their keys get no revision again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from jazzmine.core.long_term_memory import DeleteItem, LongTermMemoryStore, MemoryItem, PutItem
from jazzmine.records.item_rows import StoredItem
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config
from tests.behaviour.edge_values import TEXTS, VALUES

NOW = time.time_ns() // 1_000_000


def embed(texts: Sequence[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


def transfer(api: Api) -> Any:
    return api.internal("maintenance")


async def all_of(
    api: Api, store: LongTermMemoryStore, at: int = 0, size: int = 2
) -> list[StoredItem]:
    return [item async for batch in transfer(api).iter_items(store, at, size) for item in batch]


@pytest.mark.smoke
async def test_items_are_restored_as_they_were(api: Api, item_config: Config) -> None:
    async with await api.LongTermMemoryStore.initialize(item_config, embed=embed) as store:
        fields: dict[str, Any] = {"user_id": "ann", "source_message_id": "m1", "expires_at": 2**53}
        await store.apply(
            [
                PutItem(MemoryItem(namespace=("a", text[:9]), key=f"{n}", value={"v": value}))
                for n, (text, value) in enumerate(zip(TEXTS, VALUES, strict=False))
            ]
        )
        await store.put(
            MemoryItem(
                namespace=("b",), key="x", value={"t": "é"}, data=bytes(range(256)), **fields
            )
        )
        await store.put(MemoryItem(namespace=("b",), key="y", value={}, data=b""))
        before = await all_of(api, store)
        assert before[-2].vector is not None
        await store.apply([DeleteItem(item.namespace, item.key) for item in before])

        await transfer(api).restore_items(store, before)

        assert await all_of(api, store) == before
        assert [item.vector for item in await all_of(api, store)] == [
            item.vector for item in before
        ]


@pytest.mark.smoke
async def test_a_later_revision_is_higher_than_those_restored(
    api: Api, items: LongTermMemoryStore
) -> None:
    first = await items.put(MemoryItem(namespace=("n",), key="a", value={}))
    far = StoredItem(
        namespace=("n",), key="b", value={}, revision=10**9, created_at=5, updated_at=6
    )

    await transfer(api).restore_items(items, [far])

    assert [item.revision for item in await all_of(api, items)] == [first.revision, 10**9]
    changed = await items.put(MemoryItem(namespace=("n",), key="b", value={"new": 1}))
    other = await items.put(MemoryItem(namespace=("n",), key="a", value={"new": 1}))
    assert changed.created_at == 5
    assert 10**9 < changed.revision < other.revision


async def test_those_that_expire_while_they_are_moved_are_moved(
    api: Api, items: LongTermMemoryStore
) -> None:
    for key, end in (("gone", 5), ("ending", 20), ("later", NOW + 3_600_000), ("never", None)):
        item = MemoryItem(namespace=("n",), key=key, value={}, expires_at=end)
        await items.put(item)

    assert [item.key for item in await all_of(api, items, at=10)] == ["ending", "later", "never"]
    assert [item.key for item in await all_of(api, items, at=NOW)] == ["later", "never"]


async def test_a_restored_item_takes_the_place_of_another_one(
    api: Api, items: LongTermMemoryStore
) -> None:
    await items.put(MemoryItem(namespace=("n",), key="a", value={"old": 1}, data=b"x", user_id="u"))
    restored = StoredItem(
        namespace=("n",), key="a", value={"new": 1}, created_at=1, updated_at=2, revision=3
    )

    await transfer(api).restore_items(items, [restored])

    assert await all_of(api, items) == [restored]
    assert await items.erase_user("u") == 0
