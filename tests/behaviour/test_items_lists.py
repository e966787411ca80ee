"""Lists of items and of namespaces: their order, their pages and their conditions."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine.core.long_term_memory import LongTermMemoryStore, MemoryItem, PutItem
from tests.behaviour.edge_values import DIFFERENT, EQUAL

NAMESPACES = [
    ("a",),
    ("a", "\0"),
    ("a", "\x01", "z"),
    ("a", "b"),
    ("a", "b", "c"),
    ("a", "ba"),
    ("a\0",),
    ("a\0", "b"),
    ("a\x01",),
    ("a\x02b",),
    ("a ",),
    ("ab",),
    ("ab", "b"),
    ("é",),
    ("\ufdd0",),
    ("\ufdd00",),
    ("\uffff",),
    ("\U0001f600",),
    ("\U0010ffff", "\U0010ffff"),
]
KEYS = ["\0", "\x01", "\x02", "a", "a\0", "a\x01b", "z", "é", "\uffff", "\U0001f600"]


async def put(items: LongTermMemoryStore, places: list[tuple[tuple[str, ...], str]]) -> list[Any]:
    return await items.apply(
        [PutItem(MemoryItem(namespace=names, key=key, value={"k": key})) for names, key in places]
    )


@pytest.mark.smoke
async def test_items_are_listed_by_the_parts_of_their_namespaces_and_their_keys(
    items: LongTermMemoryStore,
) -> None:
    places = [(names, key) for names in reversed(NAMESPACES) for key in reversed(KEYS)]
    await put(items, places)

    found = await items.list_items()

    assert [(item.namespace, item.key) for item in found] == sorted(places)


async def test_a_condition_is_about_equal_values_of_keys(items: LongTermMemoryStore) -> None:
    cases = [({"a": stored, "b": 2}, {"a": asked}, True) for stored, asked in EQUAL]
    cases += [({"a": stored, "b": 2}, {"a": asked}, False) for stored, asked in DIFFERENT]
    cases += [({"a": 1}, {}, True), ({}, {"a": None}, False), ({"a": 1}, {"a": 1, "b": 2}, False)]
    for stored, wanted, is_found in cases:
        item = await items.put(MemoryItem(namespace=("n",), key="k", value=stored))
        found = [item] if is_found else []

        assert await items.list_items(where=wanted) == found, (stored, wanted)
        assert await items.list_items(("n",), where=wanted, order="updated", limit=5) == found


@pytest.mark.smoke
async def test_a_condition_fills_its_pages(items: LongTermMemoryStore) -> None:
    await items.apply(
        [
            PutItem(MemoryItem(namespace=("n",), key=f"{n:02}", value={"even": n % 2 == 0}))
            for n in range(40)
        ]
    )

    first = await items.list_items(where={"even": True}, limit=15)
    second = await items.list_items(where={"even": True}, limit=15, after=first[-1])

    assert [int(item.key) for item in first + second] == list(range(0, 40, 2))
    assert await items.list_items(limit=0) == []


@pytest.mark.each_value
@pytest.mark.parametrize("suffix", [(), ("b",), ("b", "c"), ("x", "a", "b", "c")])
async def test_namespaces_are_cut_off_and_returned_once(
    items: LongTermMemoryStore, suffix: tuple[str, ...]
) -> None:
    await put(items, [(names, "k") for names in NAMESPACES])
    matching = [
        names for names in NAMESPACES if ("", *names)[-len(suffix) :] == suffix or not suffix
    ]
    for depth in (None, 1, 2, 3):
        pages: list[tuple[str, ...]] = []
        while page := await items.list_namespaces(
            suffix=suffix, max_depth=depth, limit=2, after=pages[-1] if pages else None
        ):
            pages += page
        assert pages == sorted({names[:depth] for names in matching})


@pytest.mark.smoke
async def test_a_list_without_data_has_all_else(items: LongTermMemoryStore) -> None:
    stored = await items.put(MemoryItem(namespace=("a",), key="k", value={"n": 1}, data=b"x"))

    assert await items.list_items(with_data=False) == [stored.model_copy(update={"data": None})]
    assert await items.list_items(where={"n": 1}, with_data=True) == [stored]
