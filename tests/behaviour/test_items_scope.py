"""A long-term memory that is scoped to a user has that user's items, and no others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from jazzmine import ConflictError, DeleteItem, MemoryItem, PutItem, ScopeError
from jazzmine.core.long_term_memory import LongTermMemoryStore
from tests.behaviour.items_machine import EXPIRED
from tests.behaviour.scope_samples import outcome


def item(key: str, user_id: str | None = "ann", **fields: Any) -> MemoryItem:
    given: dict[str, Any] = {"value": {"text": f"tea {key}"}, "user_id": user_id, **fields}
    return MemoryItem(namespace=("facts",), key=key, **given)


# Bob's item, one of nobody, and one that is not stored.
OTHERS, ABSENT = ["b", "n"], "x"

# Each has the result that it would have if nothing were stored with the key.
ABOUT: dict[str, Callable[[Any, str], Any]] = {
    "apply": lambda own, key: own.apply([PutItem(item("c")), DeleteItem(("facts",), key, 7)]),
    "apply-deletion": lambda own, key: own.apply([DeleteItem(("facts",), key)]),
    "delete": lambda own, key: own.delete(("facts",), key),
    "delete-expected": lambda own, key: own.delete(("facts",), key, expected_revision=7),
    "delete-none": lambda own, key: own.delete(("facts",), key, expected_revision=None),
    "get": lambda own, key: own.get(("facts",), key),
    "get_many": lambda own, key: own.get_many([(("facts",), key)]),
    "list_items": lambda own, key: own.list_items(where={"text": f"tea {key}"}),
    "list_namespaces": lambda own, key: own.list_namespaces(("others", key)),
    "put": lambda own, key: own.put(item(key), expected_revision=7),
    "renew": lambda own, key: own.renew(
        [item(key, None, revision={"b": 2, "n": 3}.get(key, 1), expires_at=1)]
    ),
    "search_items": lambda own, key: own.search_items(key),
}
# Called without a key; what they do is tested below.
OF_THE_USER = {"close", "erase_user", "move_user", "open", "ping", "prune_expired", "scoped"}


@pytest.fixture
async def entangled(items: LongTermMemoryStore) -> LongTermMemoryStore:
    """Items of two users and of nobody, in one namespace and in others."""
    given = [
        item("a"),
        item("b", "bob"),
        item("n", None),
        item("a2", expires_at=EXPIRED),
        item("b2", "bob", expires_at=EXPIRED),
        MemoryItem(namespace=("others", "b"), key="k", value={}, user_id="bob"),
    ]
    await items.apply([PutItem(one) for one in given])
    return items


async def keys(store: LongTermMemoryStore) -> list[tuple[str, int]]:
    return [(one.key, one.revision) for one in await store.list_items()]


def test_each_method_is_called() -> None:
    methods = {
        name
        for name, _ in inspect.getmembers(LongTermMemoryStore, inspect.isfunction)
        if not name.startswith("_")
    }

    assert {name.split("-")[0] for name in ABOUT} | OF_THE_USER == methods - {"require_open"}


@pytest.mark.smoke
async def test_items_of_others_are_as_if_they_were_not_stored(
    entangled: LongTermMemoryStore,
) -> None:
    own, before = entangled.scoped(user_id="ann"), await keys(entangled)
    for name, call in ABOUT.items():
        absent, *found = [
            repr(await outcome(call, own, key)).replace(f"'{key}'", "") for key in (ABSENT, *OTHERS)
        ]

        assert set(found) == {absent}, name
        assert await keys(entangled) == before, name
    with pytest.raises(ScopeError):
        own.scoped(user_id="bob")


@pytest.mark.parametrize("conflicts", [1, 1_000])
async def test_a_change_of_an_item_that_others_change_meanwhile_is_made_again(
    entangled: LongTermMemoryStore, monkeypatch: pytest.MonkeyPatch, conflicts: int
) -> None:
    apply, others = entangled.backend.apply, iter(range(conflicts))
    mine, theirs = item("a", value={"n": 1}), item("a", value={"n": 2})

    async def later(*args: Any) -> Any:
        if args[0][0].item.value == mine.value and next(others, None) is not None:
            await entangled.put(theirs)
        return await apply(*args)

    monkeypatch.setattr(entangled.backend, "apply", later)
    found = await outcome(entangled.scoped(user_id="ann").put, mine)

    stored = await entangled.get(("facts",), "a")
    if conflicts == 1:
        assert (found, found.value) == (stored, mine.value)
    else:
        assert found[0] is ConflictError
