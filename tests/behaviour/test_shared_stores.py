"""All three kinds of store are opened at once, and share what a database has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from jazzmine import ConfigurationError, MemoryItem, StoreClosedError
from jazzmine.core import Stores
from tests.behaviour.apis import Api
from tests.behaviour.backends import MEMORY_BACKENDS, Backend, Config
from tests.behaviour.samples import conversation, message

BACKENDS = [one for one in MEMORY_BACKENDS if not one.name.startswith("redis")]


@pytest.fixture(params=BACKENDS, ids=str)
def place(request: pytest.FixtureRequest) -> Iterator[Config]:
    """The configuration of an empty place for all kinds of store."""
    backend: Backend = request.param
    with backend.open_config() as config:
        yield config


async def fill(stores: Stores) -> None:
    await stores.messages.store_conversation(conversation("c1"))
    await stores.messages.store_message(message("m1"))
    await stores.working_memory.get_or_create("c1", "u1", "a1")
    await stores.long_term_memory.put(MemoryItem(namespace=("n",), key="k", value={"a": 1}))


async def found(stores: Stores) -> tuple[bool, bool, bool]:
    return (
        await stores.messages.get_message_by_id("m1") is not None,
        await stores.working_memory.get("c1") is not None,
        await stores.long_term_memory.get(("n",), "k") is not None,
    )


async def test_each_store_keeps_its_records_and_is_closed_at_the_end(
    api: Api, place: Config
) -> None:
    async with api.open_stores(place) as stores:
        await fill(stores)
        assert await found(stores) == (True, True, True)
    for store in stores:
        with pytest.raises(StoreClosedError):
            await store.ping()
    is_kept = place["storage"] != "memory"
    with suppress(ZeroDivisionError):
        async with api.open_stores(place) as stores:
            assert await found(stores) == (is_kept, is_kept, is_kept)
            raise ZeroDivisionError
    for store in stores:
        with pytest.raises(StoreClosedError):
            await store.ping()


async def test_a_store_that_is_closed_leaves_the_others_open(api: Api, place: Config) -> None:
    async with api.open_stores(place) as stores:
        await fill(stores)
        await stores.messages.close()
        await stores.messages.close()
        assert await stores.working_memory.get("c1") is not None
        await stores.working_memory.close()
        assert await stores.long_term_memory.get(("n",), "k") is not None


async def test_the_messages_have_a_search_index_if_it_is_named(api: Api, place: Config) -> None:
    async with api.open_stores({**place, "search": True}) as stores:
        await fill(stores)
        text = message("m1").original_content
        [match] = await stores.messages.search_messages(text)
        assert match.message.id == "m1"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("mongodb://localhost/chat", "mongodb: is no place for all three kinds of store"),
        ("redis://localhost", "redis: is no place for all three kinds of store"),
        ("json:messages.json", "json: is no place for all three kinds of store"),
        ("sqlite:agent.db?tim=3", "tim"),
        ({"storage": "mongodb"}, "mongodb"),
        (None, "not None"),
    ],
)
async def test_a_place_that_lacks_a_kind_of_store_is_refused(api: Api, url: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        async with api.open_stores(url):
            pass
