"""The store of LangGraph's graphs in a long-term memory."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from jazzmine.adapters.langgraph import JazzmineStore
from jazzmine.core.long_term_memory import LongTermMemoryStore
from jazzmine.sync.long_term_memory import LongTermMemoryStore as SyncLongTermMemoryStore
from tests.behaviour.backends import Config

AXES = ["rain", "sun", "snow"]


class Embedder:
    """Returns the direction of the words that it knows, and notes what it is given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.texts += texts
        return [[float(text.count(axis)) for axis in AXES] for text in texts]


@pytest.fixture
def items(item_config: Config) -> Iterator[SyncLongTermMemoryStore]:
    with SyncLongTermMemoryStore.initialize(item_config) as opened:
        yield opened


@pytest.fixture
def memory() -> Iterator[SyncLongTermMemoryStore]:
    with SyncLongTermMemoryStore.initialize("memory:") as opened:
        yield opened


@pytest.fixture
def embed() -> Embedder:
    return Embedder()


@pytest.fixture
def vectors(item_config: Config, embed: Embedder) -> Iterator[SyncLongTermMemoryStore]:
    with SyncLongTermMemoryStore.initialize(item_config, embed=embed) as opened:
        yield opened


def scores(store: JazzmineStore, query: str, **arguments: Any) -> dict[str, float | None]:
    found = store.search(("facts",), query=query, **arguments)
    return {item.key: None if item.score is None else round(item.score, 6) for item in found}


def test_the_store_ranks_and_leaves_nothing_out(items: SyncLongTermMemoryStore) -> None:
    store = JazzmineStore(items)
    for key, text in (("a", "rain"), ("b", "sun"), ("c", "rain and rain")):
        store.put(("facts",), key, {"text": text, "size": len(text)})

    found = store.search(("facts",), query="rain")
    assert {item.key for item in found[:2]} == {"a", "c"}
    assert (found[2].key, found[2].score) == ("b", None)
    assert [item.key for item in store.search(("facts",), filter={"size": {"$lt": 4}})] == ["b"]
    assert store.list_namespaces() == [("facts",)]


def test_a_query_does_not_rank_an_item_without_an_index(memory: SyncLongTermMemoryStore) -> None:
    store = JazzmineStore(memory, ttl={"default_ttl": 60})
    store.put(("facts",), "a", {"text": "rain"}, index=False)
    store.put(("facts",), "b", {"text": "rain"}, index=False, ttl=None)
    store.put(("facts",), "c", {"text": "rain"})
    found = store.search(("facts",), query="rain")
    assert [item.score is None for item in found] == [False, True, True]
    assert found[0].key == "c"
    assert [item.expires_at is None for item in memory.list_items()] == [False, True, False]
    store.put(("facts",), "a", {"text": "rain"})
    assert {item.key for item in store.search(("facts",), query="rain") if item.score} == {"a", "c"}


def test_an_item_of_the_store_expires_after_its_last_use(memory: SyncLongTermMemoryStore) -> None:
    store = JazzmineStore(memory, ttl={"default_ttl": 0.6 / 60})
    store.put(("facts",), "a", {"text": "rain"})
    for _ in range(3):
        time.sleep(0.4)
        assert store.get(("facts",), "a") is not None
    time.sleep(0.7)
    assert store.search(("facts",)) == []


def test_a_read_lets_an_item_live_on_and_does_not_change_it(
    vectors: SyncLongTermMemoryStore, embed: Embedder
) -> None:
    store = JazzmineStore(vectors, ttl={"default_ttl": 60})
    for key in ("a", "b", "c"):
        store.put(("facts",), key, {"text": "rain"})
    before = vectors.list_items()
    given = list(embed.texts)
    time.sleep(0.002)

    store.get(("facts",), "a", refresh_ttl=False)
    store.search(("facts",), limit=2, refresh_ttl=False)
    assert vectors.list_items() == before
    first = store.get(("facts",), "a")
    store.search(("facts",), limit=2)

    after = vectors.list_items()
    assert embed.texts == given
    assert first is not None
    assert store.get(("facts",), "a") == first
    ends = [(item.expires_at, later.expires_at) for item, later in zip(before, after, strict=True)]
    assert [earlier != later for earlier, later in ends] == [True, True, True]
    same = {"expires_at": None}
    assert [item.model_copy(update=same) for item in after] == [
        item.model_copy(update=same) for item in before
    ]


def test_a_score_is_the_cosine_with_the_nearest_field(
    vectors: SyncLongTermMemoryStore, embed: Embedder
) -> None:
    store = JazzmineStore(vectors, fields=["title", "parts[*]"])
    store.put(("facts",), "a", {"title": "rain", "parts": ["sun", "sun"], "note": "snow"})
    store.put(("facts",), "b", {"title": "snow", "note": "rain"}, index=["note", "title"])
    store.put(("facts",), "c", {"title": "rain"}, index=False)
    assert sorted(embed.texts) == ["rain", "rain", "snow", "sun", "sun"]

    assert scores(store, "rain") == {"a": 1.0, "b": 1.0, "c": None}
    assert scores(store, "sun") == {"a": 1.0, "b": 0.0, "c": None}
    assert scores(store, "rain snow") == {
        "a": round(math.sqrt(0.5), 6),
        "b": round(math.sqrt(0.5), 6),
        "c": None,
    }
    with pytest.raises(TypeError, match="fields"):
        JazzmineStore(vectors, fields="title")


def test_without_fields_a_vector_is_of_all_texts(vectors: SyncLongTermMemoryStore) -> None:
    store = JazzmineStore(vectors)
    store.put(("facts",), "a", {"text": "rain", "more": ["sun"], "n": 1})
    assert scores(store, "rain") == {"a": round(math.sqrt(0.5), 6)}


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"n": 1}, ["a"]),
        ({"n": True}, ["b"]),
        ({"n": 1.0, "t": "rain"}, ["a"]),
        ({"n": None}, ["c", "d"]),
        ({"n": {"$ne": 1}, "t": "rain"}, ["d"]),
        ({"t": {"$eq": "rain"}, "n": 2**70}, []),
        ({"t": {"$gte": "rain", "$lt": "sun"}}, ["a", "c", "d"]),
        ({"of": {"n": 1, "l": (1, 2)}}, ["d"]),
        ({"of": {"n": {"$gt": 1}}}, []),
    ],
)
def test_a_filter_is_of_the_values_of_items(
    vectors: SyncLongTermMemoryStore, wanted: dict[str, Any], keys: list[str]
) -> None:
    store = JazzmineStore(vectors)
    values: dict[str, dict[str, Any]] = {
        "a": {"n": 1, "t": "rain"},
        "b": {"n": True, "t": "sun"},
        "c": {"n": None, "t": "snow"},
        "d": {"t": "rain", "of": {"n": 1, "l": [1, 2]}},
    }
    for key, value in values.items():
        store.put(("facts",), key, value)

    assert sorted(item.key for item in store.search(("facts",), filter=wanted)) == keys
    assert sorted(scores(store, "rain", filter=wanted)) == keys
    with pytest.raises(ValueError, match=r"unknown operator '\$in'; there are"):
        store.search(("facts",), filter={"t": {"$in": ["rain"]}})


def test_namespaces_are_those_of_the_frameworks_own_store(memory: SyncLongTermMemoryStore) -> None:
    ours, theirs = JazzmineStore(memory), InMemoryStore()
    for store in (ours, theirs):
        for place in (("a", "b", "c"), ("a", "x"), ("b", "c"), ("c",)):
            store.put(place, "k", {"n": 1})
    ours.put(("gone",), "k", {"n": 1})
    ours.delete(("gone",), "k")
    for conditions in (
        {},
        {"prefix": ("a",)},
        {"prefix": ("*", "b")},
        {"prefix": ("a", "b", "c", "d")},
        {"suffix": ("c",)},
        {"suffix": ("b", "*")},
        {"prefix": ("a",), "suffix": ("c",)},
        {"max_depth": 1},
    ):
        expected: Any = theirs.list_namespaces(**conditions)  # type: ignore[arg-type]
        assert ours.list_namespaces(**conditions) == expected, conditions  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown operation: str"):
        ours.batch(["no operation"])


def test_pages_of_a_query_have_each_item_once(vectors: SyncLongTermMemoryStore) -> None:
    store = JazzmineStore(vectors)
    for number in range(7):
        store.put(("facts",), str(number), {"text": "rain " * number, "even": number % 2 == 0})
    pages = [list(scores(store, "rain", limit=2, offset=first)) for first in range(0, 8, 2)]
    assert [len(page) for page in pages] == [2, 2, 2, 1]
    assert sorted(key for page in pages for key in page) == list("0123456")
    assert pages[3] == ["0"]  # without a vector it is after the others


async def test_a_time_out_of_the_embedding_ends_a_plain_call() -> None:
    async def embed(texts: list[str]) -> list[list[float]]:
        raise TimeoutError("no embedding")

    async with await LongTermMemoryStore.initialize("memory:", embed=embed) as items:
        put = partial(JazzmineStore(items).put, ("facts",), "a", {"text": "rain"})
        with pytest.raises(TimeoutError, match="no embedding"):
            await asyncio.wait_for(asyncio.to_thread(put), 20)
