"""A long-term memory that is scoped to a user has that user's items, and no others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from jazzmine import (
    ConflictError,
    DeleteItem,
    IntegrityError,
    JazzmineError,
    MemoryItem,
    PutItem,
    ScopeError,
)
from jazzmine.core.long_term_memory import LongTermMemoryStore
from tests.behaviour.apis import Api, Runner
from tests.behaviour.backends import Backend, Config
from tests.behaviour.items_machine import (
    EXPIRED,
    ItemMachine,
    Place,
    drafts,
    expectations,
    place_of,
    places,
    users,
)
from tests.behaviour.state_machine import SETTINGS
from tests.mutants import run_machine


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
OF_THE_USER = {
    "close",
    "erase_user",
    "move_user",
    "open",
    "ping",
    "prune_expired",
    "require_open",
    "scoped",
}


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


async def outcome(call: Callable[..., Any], *args: Any) -> Any:
    try:
        return await call(*args)
    except JazzmineError as error:
        return type(error), str(error)


def test_each_method_is_called() -> None:
    methods = {
        name
        for name, _ in inspect.getmembers(LongTermMemoryStore, inspect.isfunction)
        if not name.startswith("_")
    }

    assert {name.split("-")[0] for name in ABOUT} | OF_THE_USER == methods | {"require_open"}


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


async def test_another_user_as_an_argument_is_refused(entangled: LongTermMemoryStore) -> None:
    own, before = entangled.scoped(user_id="ann"), await keys(entangled)

    with pytest.raises(ScopeError):
        await own.apply([PutItem(item("c", "bob"))])
    with pytest.raises(ScopeError):
        own.scoped(user_id="bob")
    assert await keys(entangled) == before


class ScopedItemMachine(ItemMachine):
    """Makes each call to a store that is scoped to one of two users."""

    viewer = "ann"

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        store = self.stores[self.calls % self.count].scoped(user_id=self.viewer)
        return self.runner.run(getattr(store, method)(*arguments, **named))

    def teardown(self) -> None:
        for user in ("ann", "bob"):
            self.viewer = user
            self.call("erase_user", user)
        self.stored.clear()
        super().teardown()

    def live(self) -> dict[Place, MemoryItem]:
        return {place: one for place, one in super().live().items() if self.is_own(place)}

    def is_own(self, place: Place) -> bool:
        return place in self.stored and self.stored[place].user_id == self.viewer

    def is_taken(self, place: Place) -> bool:
        return place in super().live() and not self.is_own(place)

    @rule(viewer=st.sampled_from(["ann", "bob"]))
    def look(self, viewer: str) -> None:
        self.viewer = viewer

    @rule(draft=drafts(), expectation=expectations)
    def put(self, draft: MemoryItem, expectation: str) -> None:
        place = place_of(draft)
        expected = self.expected(expectation, place)
        allowed = self.allows(expected, place)
        try:
            stored = self.call("put", draft, expected_revision=expected)
        except ScopeError:
            assert draft.user_id not in (None, self.viewer)
        except ConflictError:
            assert not allowed
        except IntegrityError:
            assert allowed
            assert self.is_taken(place)
        else:
            assert allowed
            assert not self.is_taken(place)
            self.note(draft.model_copy(update={"user_id": self.viewer}), stored)

    @rule(place=places, expectation=expectations)
    def delete(self, place: Place, expectation: str) -> None:
        expected = self.expected(expectation, place)
        allowed, was_there = self.allows(expected, place), place in self.live()
        try:
            deleted = self.call("delete", *place, expected_revision=expected)
        except ConflictError:
            assert not allowed
        else:
            assert allowed
            assert deleted is was_there
            if self.is_own(place):
                del self.stored[place]

    @rule(several=st.lists(drafts(), min_size=2, max_size=4, unique_by=place_of))
    def apply(self, several: list[MemoryItem]) -> None:
        given = [one.model_copy(update={"user_id": self.viewer}) for one in several]
        is_taken = any(self.is_taken(place_of(one)) for one in given)
        try:
            results = self.call("apply", [PutItem(one) for one in given])
        except IntegrityError:
            assert is_taken
        else:
            assert not is_taken
            for draft, stored in zip(given, results, strict=True):
                self.note(draft, stored)

    @rule(user=users)
    def list_items(self, user: str | None) -> None:
        try:
            listed = self.call("list_items", user_id=user)
        except ScopeError:
            assert user not in (None, self.viewer)
        else:
            assert listed == sorted(self.live().values(), key=place_of)

    def erase_user(self, user: str) -> None:
        gone = [place for place in self.stored if self.is_own(place)]
        try:
            assert self.call("erase_user", user) == len(gone)
        except ScopeError:
            assert user != self.viewer
        else:
            for place in gone:
                del self.stored[place]

    def move_user(self, giver: str, taker: str) -> None:
        try:
            assert self.call("move_user", giver, taker) == 0
        except ScopeError:
            assert {giver, taker} != {self.viewer}
        else:
            assert giver == taker == self.viewer

    def prune(self) -> None:
        gone = [place for place in self.stored if self.is_own(place) and place not in self.live()]

        assert self.call("prune_expired") == len(gone)
        for place in gone:
            del self.stored[place]


def test_any_sequence_of_calls_has_the_results_of_a_model_that_filters(
    api: Api, item_backend: Backend, item_config: Config
) -> None:
    with Runner() as runner:
        members = {
            "open_store": staticmethod(lambda: api.LongTermMemoryStore.initialize(item_config)),
            "runner": runner,
            "count": 2 if item_backend.shared else 1,
        }
        machine = type("Machine", (ScopedItemMachine,), members)
        run_machine(machine, SETTINGS, api, item_backend)
