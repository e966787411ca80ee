"""Fixtures: an open store of each back end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

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
def kept(backend: Backend) -> bool:
    """Whether a store stays open for the next test: not if it caches known conversations.

    A module may override this if its tests write only to conversations that exist.
    """
    return not backend.remembers


@pytest.fixture
async def store(
    backend: Backend, config: Config, open_stores: dict[str, MessageStore], kept: bool
) -> AsyncIterator[MessageStore]:
    """An empty message store; `config` opens others on the same data.

    Opening a store takes longer than most tests, if not in memory or on a JSON file.
    """
    if backend.fresh or not kept:
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
