"""Items are found by words, by vectors, and by both."""

from __future__ import annotations

import math
from typing import Any

import pytest

from jazzmine.core.long_term_memory import LongTermMemoryStore, MemoryItem, PutItem
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config

TEXTS = {
    "tea": "Ann likes green tea",
    "teas": "tea, tea, and more Tea!",
    "coffee": "Bob drinks black coffee in the morning",
    "cafe": "A CAFÉ near the river",
    "tokyo": "東京都に住んでいます",
}


async def store_texts(items: LongTermMemoryStore) -> None:
    await items.apply(
        [
            PutItem(MemoryItem(namespace=("facts", key[0]), key=key, value={"text": [text]}))
            for key, text in TEXTS.items()
        ]
    )


async def keys(items: LongTermMemoryStore, query: str, **arguments: Any) -> list[str]:
    return [found.item.key for found in await items.search_items(query, **arguments)]


@pytest.mark.smoke
async def test_items_with_a_word_of_the_query_are_found(items: LongTermMemoryStore) -> None:
    await store_texts(items)

    assert await keys(items, "TEA") == ["teas", "tea"]
    assert await keys(items, "green teapot") == ["tea"]
    assert await keys(items, "cafe") == await keys(items, "ＣＡＦE\u0301") == ["cafe"]
    assert await keys(items, "東京") == ["tokyo"]
    assert await keys(items, "text") == []  # the keys of a value are not searched
    assert await keys(items, "?!") == await keys(items, "") == []


async def test_a_search_keeps_to_its_prefix_condition_and_limit(
    items: LongTermMemoryStore,
) -> None:
    await store_texts(items)
    await items.put(MemoryItem(namespace=("facts2",), key="x", value={"text": "tea", "n": 1}))

    assert await keys(items, "tea", prefix=("facts",)) == ["teas", "tea"]
    assert await keys(items, "tea", where={"n": 1.0}) == ["x"]
    assert len(await keys(items, "tea", limit=2)) == 2
    assert await keys(items, "tea", limit=0) == []


DIRECTIONS = {"drink": (0.0, 1.0), "tea": (0.1, 0.9), "river": (1.0, 0.0)}


def embed(texts: list[str]) -> list[list[float]]:
    """Return vectors in the plane, long ones and short ones."""
    vectors = []
    for text in texts:
        known = [DIRECTIONS[word] for word in text.lower().split() if word in DIRECTIONS]
        length = len(text) * 1e30
        vectors.append([length * sum(axis) for axis in zip(*known, strict=True)] or [0.0, 0.0])
    return vectors


async def embed_and_wait(texts: list[str]) -> list[list[float]]:
    return embed(texts)


@pytest.fixture(params=[embed, embed_and_wait], ids=["plain", "other"])
def embedder(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.smoke
async def test_items_are_found_by_their_vectors(
    api: Api, item_config: Config, embedder: Any
) -> None:
    async with await api.LongTermMemoryStore.initialize(item_config, embed=embedder) as items:
        for key, text in {"tea": "green tea", "river": "the river", "none": "nothing"}.items():
            await items.put(MemoryItem(namespace=("n",), key=key, value={"text": text}))
        await items.put(MemoryItem(namespace=("n",), key="empty", value={"n": 1}))

        found = await items.search_items("a drink")

        assert [one.item.key for one in found] == ["tea", "river"]
        assert math.isclose(found[0].score, 1 / 61)
        # By words and by vectors: both rankings count.
        both = await items.search_items("nothing to drink")
        assert {one.item.key for one in both} == {"tea", "river", "none"}
        assert both[0].score == both[1].score
        assert [one.item.key for one in await items.search_items("drink tea", limit=1)] == ["tea"]
        assert await items.search_items("drink", prefix=("m",)) == []
        assert await items.search_items("drink", where={"n": 1}) == []
        # By vectors alone the score is the cosine; by words alone there are no vectors.
        alone = await items.search_items("nothing to drink", by="vectors")
        assert [one.item.key for one in alone] == ["tea", "river"]
        assert math.isclose(alone[0].score, 0.9 / math.hypot(0.1, 0.9), rel_tol=1e-6)
        assert await keys(items, "nothing to drink", by="words") == ["none"]

        await items.put(MemoryItem(namespace=("n",), key="tea", value={"text": "sold out"}))
        await items.delete(("n",), "river")
        assert await items.search_items("a drink") == []


@pytest.mark.smoke
async def test_an_item_is_found_by_the_nearest_of_its_texts(api: Api, item_config: Config) -> None:
    async with await api.LongTermMemoryStore.initialize(item_config, embed=embed) as items:
        item = MemoryItem(namespace=("n",), key="both", value={"text": "nothing", "n": 1})
        hidden = item.model_copy(update={"key": "hidden", "value": {"text": "the river"}})
        await items.apply([PutItem(item, texts=["river", "", "drink"]), PutItem(hidden, texts=[])])

        for query in ("river", "drink"):
            [found] = await items.search_items(query, by="vectors")
            assert (found.item.key, round(found.score, 6)) == ("both", 1.0)
        assert await keys(items, "river", by="vectors", where={"n": 1.0}) == ["both"]
        assert await keys(items, "river", by="vectors", where={"n": 2}) == []


@pytest.mark.before_hooks
async def test_a_search_by_what_there_is_not_is_refused(items: LongTermMemoryStore) -> None:
    with pytest.raises(ValueError, match="embed"):
        await items.search_items("tea", by="vectors")
    with pytest.raises(ValueError, match="by must be"):
        await items.search_items("tea", by="meaning")  # type: ignore[arg-type]


async def test_what_embed_returns_is_checked(api: Api, item_config: Config) -> None:
    wrong: list[Any] = [[], [[math.nan]], [[1.0], [1.0]], [["x"]], None, [1.0]]
    for vectors in wrong:

        def embed_wrongly(texts: list[str], vectors: Any = vectors) -> Any:
            return vectors

        async with await api.LongTermMemoryStore.initialize(
            item_config, embed=embed_wrongly
        ) as items:
            with pytest.raises((ValueError, TypeError), match=r"embed must|embed returned|'x'"):
                await items.put(MemoryItem(namespace=("n",), key="k", value={"t": "text"}))
            assert await items.list_items() == []
    item = MemoryItem(namespace=("n",), key="k", value={})
    async with await api.LongTermMemoryStore.initialize(item_config, embed=embed) as items:
        with pytest.raises(TypeError, match="texts"):
            await items.apply([PutItem(item, texts="tea")])
    with pytest.raises(TypeError, match="embed"):
        await api.LongTermMemoryStore.initialize(item_config, embed=7)  # type: ignore[arg-type]


async def test_vectors_of_another_model_are_left_out(
    api: Api, item_config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    async with await api.LongTermMemoryStore.initialize(
        item_config, embed=lambda texts: [[1.0] * (2 + ("long" in text)) for text in texts]
    ) as items:
        for key in ("long", "short"):
            await items.put(MemoryItem(namespace=("n",), key=key, value={"text": key}))

        assert await keys(items, "other") == await keys(items, "other") == ["short"]
    assert caplog.text.count("left out 1 items") == 1
