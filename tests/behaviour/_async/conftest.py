"""Fixtures: an open store of each back end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from jazzmine.core.long_term_memory import LongTermMemoryStore
from jazzmine.core.message_store import MessageStore
from jazzmine.core.working_memory import WorkingMemoryStore
from tests.behaviour.backends import Backend, Config
from tests.behaviour.memory_samples import TTL
from tests.behaviour.samples import conversation


@pytest.fixture(scope="module")
async def open_stores() -> AsyncIterator[dict[str, MessageStore]]:
    """The message stores that the tests of a module share, by configuration."""
    stores: dict[str, MessageStore] = {}
    yield stores
    for opened in stores.values():
        await opened.close()


@pytest.fixture
async def store(
    backend: Backend, config: Config, open_stores: dict[str, MessageStore]
) -> AsyncIterator[MessageStore]:
    """An empty message store; `config` opens others on the same data.

    Opening a store takes longer than most tests, if not in memory or on a JSON file.
    """
    if backend.fresh:
        async with await MessageStore.initialize(config) as opened:
            yield opened
    else:
        place = str(config)
        if place not in open_stores:
            open_stores[place] = await MessageStore.initialize(config)
        yield open_stores[place]


@pytest.fixture
async def chat(store: MessageStore) -> MessageStore:
    """The same store with one conversation, "c1"."""
    await store.store_conversation(conversation())
    return store


@pytest.fixture
async def searched(search_config: Config) -> AsyncIterator[MessageStore]:
    """An empty message store with an index of English words."""
    async with await MessageStore.initialize(search_config) as opened:
        yield opened
        await opened.backend.make_search(None)  # other tests get the same place


@pytest.fixture(scope="module")
async def open_memories() -> AsyncIterator[dict[str, WorkingMemoryStore]]:
    """The same for the stores of working memory."""
    stores: dict[str, WorkingMemoryStore] = {}
    yield stores
    for opened in stores.values():
        await opened.close()


@pytest.fixture
async def memory_store(
    memory_backend: Backend, memory_config: Config, open_memories: dict[str, WorkingMemoryStore]
) -> AsyncIterator[WorkingMemoryStore]:
    """An empty working memory."""
    if memory_backend.fresh:
        async with await WorkingMemoryStore.initialize(memory_config) as opened:
            yield opened
    else:
        place = str(memory_config)
        if place not in open_memories:
            open_memories[place] = await WorkingMemoryStore.initialize(memory_config)
        yield open_memories[place]


@pytest.fixture
async def brief_memory_store(memory_config: Config) -> AsyncIterator[WorkingMemoryStore]:
    """An empty working memory whose entries expire after `TTL`."""
    config = {**memory_config, "ttl_seconds": TTL}
    async with await WorkingMemoryStore.initialize(config) as opened:
        yield opened


@pytest.fixture(scope="module")
async def open_items() -> AsyncIterator[dict[str, LongTermMemoryStore]]:
    """The same for the stores of long-term memory."""
    stores: dict[str, LongTermMemoryStore] = {}
    yield stores
    for opened in stores.values():
        await opened.close()


@pytest.fixture
async def items(
    item_backend: Backend, item_config: Config, open_items: dict[str, LongTermMemoryStore]
) -> AsyncIterator[LongTermMemoryStore]:
    """An empty long-term memory."""
    if item_backend.fresh:
        async with await LongTermMemoryStore.initialize(item_config) as opened:
            yield opened
    else:
        place = str(item_config)
        if place not in open_items:
            open_items[place] = await LongTermMemoryStore.initialize(item_config)
        yield open_items[place]
