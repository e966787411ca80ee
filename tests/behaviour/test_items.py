"""Items of a long-term memory: what is stored comes back, with a revision that never repeats."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine import StoreClosedError
from jazzmine.core.long_term_memory import DeleteItem, LongTermMemoryStore, MemoryItem, PutItem
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config
from tests.behaviour.edge_values import KEYS, TEXTS, VALUES
from tests.behaviour.stored import everything

before_hooks = pytest.mark.before_hooks
FACTS = ("users", "ann")


def fact(key: str = "tea", **fields: Any) -> MemoryItem:
    return MemoryItem(**{"namespace": FACTS, "key": key, "value": {"likes": key}, **fields})


async def test_any_text_is_stored(items: LongTermMemoryStore) -> None:
    for text in TEXTS:
        # A path is in an index, where a back end may limit its length.
        name = text[:200]
        item = MemoryItem(
            namespace=("a", name, "b"),
            key=name,
            value={"t": text},
            user_id=text,
            source_message_id=name,
        )

        stored = await items.put(item)

        assert stored == await items.get(["a", name, "b"], name)
        assert (stored.namespace, stored.key, stored.value) == (item.namespace, name, {"t": text})
        assert await items.list_items(("a", name), user_id=text, source_message_id=name) == [stored]
        assert await items.list_namespaces() == [("a", name, "b")]
        assert await items.erase_user(text) == 1


@pytest.mark.smoke
async def test_any_value_is_stored_and_found_by(items: LongTermMemoryStore) -> None:
    for value in VALUES:
        stored = await items.put(fact(value={"v": value}))

        found = await items.get(FACTS, "tea")

        assert found is not None
        assert repr(found.value["v"]) == repr(value) or found.value["v"] == value
        assert type(found.value["v"]) is type(value)
        assert await items.list_items(where={"v": value}) == [stored]


async def test_any_key_of_a_value_is_stored_and_found_by(items: LongTermMemoryStore) -> None:
    for key in KEYS:
        stored = await items.put(fact(key=f"k{key}", value={key: 1}))

        assert await items.list_items(where={key: 1.0}) == [stored]


# Several changes


async def test_many_changes_are_made_together(api: Api, items: LongTermMemoryStore) -> None:
    puts = [PutItem(fact(f"{n:03}", value={"n": n}, data=b"x" * n), None) for n in range(300)]

    stored = await items.apply(puts)

    assert await items.list_items() == stored
    # In another order: calls at once do not wait for each other.
    writes = [partial(items.apply, batch) for batch in _orders(puts)]
    assert not [one for one in await api.settle(*writes) if isinstance(one, BaseException)]


def _orders(puts: list[PutItem]) -> list[list[PutItem]]:
    some = [PutItem(put.item) for put in puts[:20]]
    return [some, some[::-1], some[10:] + some[:10]]


async def test_two_changes_of_one_item_are_refused(items: LongTermMemoryStore) -> None:
    with pytest.raises(ValueError, match="one item"):
        await items.apply([PutItem(fact()), DeleteItem(FACTS, "tea")])

    assert await items.list_items() == []


# Ends


async def test_nothing_of_the_user_is_left(
    items: LongTermMemoryStore, item_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items.backend, "deleted_at_once", 20)
    for text in ("secret-1", "secret-2"):
        await items.put(fact(user_id="ann-9f3c", value={"t": text}, data=text.encode() * 300))
    await items.apply([PutItem(fact(f"{n:04}", user_id="ann-9f3c")) for n in range(60)])
    await items.put(fact("expired", user_id="ann-9f3c", expires_at=1))
    kept = await items.apply([PutItem(fact("x")), PutItem(fact("y", user_id="ann-9"))])
    is_shared = item_config["storage"] != "memory"
    assert not is_shared or b"ann-9f3c" in everything(item_config)

    assert await items.erase_user("ann-9f3c") == 62
    assert await items.erase_user("ann-9f3c") == 0

    assert await items.list_items() == kept
    assert not is_shared or b"ann-9f3c" not in everything(item_config)
    assert not is_shared or b"secret" not in everything(item_config)


@pytest.mark.smoke
async def test_expired_items_are_pruned(items: LongTermMemoryStore) -> None:
    later = time.time_ns() // 1_000_000 + 3_600_000
    expired = [PutItem(fact(f"{n}", expires_at=n + 1)) for n in range(5)]
    kept = await items.apply([PutItem(fact("kept", expires_at=later)), PutItem(fact("x"))])
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

    for call in (items.ping, items.list_items, lambda: items.put(fact())):
        with pytest.raises(StoreClosedError):
            await call()


# Copies


async def test_what_a_caller_changes_is_not_stored(items: LongTermMemoryStore) -> None:
    item = fact(value={"list": [1]})
    stored = await items.put(item)

    item.value["list"].append(2)
    stored.value["list"].append(3)
    found = await items.get(FACTS, "tea")
    assert found is not None
    found.value["list"].append(4)

    again = await items.get(FACTS, "tea")
    assert again is not None
    assert again.value == {"list": [1]}


# Arguments

REFUSED: list[tuple[type[Exception], Callable[[Any], Any]]] = [
    (TypeError, lambda items: items.get("users", "k")),
    (TypeError, lambda items: items.get(None, "k")),
    (TypeError, lambda items: items.delete({"users"}, "k")),
    (TypeError, lambda items: items.list_items(("users", 1))),
    (ValidationError, lambda items: items.get((), "k")),
    (ValidationError, lambda items: items.get(("a", ""), "k")),
    (ValidationError, lambda items: items.get(("\ud800",), "k")),
    (ValidationError, lambda items: items.get(("a",) * 17, "k")),
    (ValidationError, lambda items: items.get(FACTS, "")),
    (TypeError, lambda items: items.get(FACTS, {"$gt": ""})),
    (ValidationError, lambda items: items.put(fact(key=""))),
    (ValidationError, lambda items: items.put(fact(namespace=()))),
    (TypeError, lambda items: items.put(fact(), expected_revision="1")),
    (TypeError, lambda items: items.put(fact(), expected_revision=True)),
    (TypeError, lambda items: items.put({"namespace": FACTS, "key": "k", "value": {}})),
    (TypeError, lambda items: items.apply([fact()])),
    (ValueError, lambda items: items.list_items(order="newest")),
    (ValueError, lambda items: items.list_items(limit=-1)),
    (TypeError, lambda items: items.list_items(after="tea")),
    (TypeError, lambda items: items.search_items(None)),
    (ValueError, lambda items: items.renew([fact(), fact()])),
    (TypeError, lambda items: items.renew([PutItem(fact())])),
]


@before_hooks
@pytest.mark.parametrize(("error", "call"), REFUSED)
async def test_wrong_arguments_are_refused(
    items: LongTermMemoryStore, error: type[Exception], call: Callable[[Any], Any]
) -> None:
    with pytest.raises(error):
        await call(items)


@before_hooks
async def test_an_item_changed_in_place_is_checked_before_it_is_stored(
    items: LongTermMemoryStore,
) -> None:
    item = fact()
    item.value["nan"] = float("nan")

    with pytest.raises(ValidationError):
        await items.put(item)
