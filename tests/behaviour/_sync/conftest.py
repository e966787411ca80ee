"""Fixtures: an open store of each back end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jazzmine.sync.long_term_memory import LongTermMemoryStore
from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.behaviour.backends import Backend, Config
from tests.behaviour.memory_samples import TTL
from tests.behaviour.samples import conversation


@pytest.fixture(scope="module")
def open_stores() -> Iterator[dict[str, MessageStore]]:
    """The message stores that the tests of a module share, by configuration."""
    stores: dict[str, MessageStore] = {}
    yield stores
    for opened in stores.values():
        opened.close()


@pytest.fixture
def store(
    backend: Backend, config: Config, open_stores: dict[str, MessageStore]
) -> Iterator[MessageStore]:
    """An empty message store; `config` opens others on the same data.

    Opening a store takes longer than most tests, if not in memory or on a JSON file.
    """
    if backend.fresh:
        with MessageStore.initialize(config) as opened:
            yield opened
    else:
        place = str(config)
        if place not in open_stores:
            open_stores[place] = MessageStore.initialize(config)
        yield open_stores[place]


@pytest.fixture
def chat(store: MessageStore) -> MessageStore:
    """The same store with one conversation, "c1"."""
    store.store_conversation(conversation())
    return store


@pytest.fixture
def searched(search_config: Config) -> Iterator[MessageStore]:
    """An empty message store with an index of English words."""
    with MessageStore.initialize(search_config) as opened:
        yield opened
        opened.backend.make_search(None)  # other tests get the same place


@pytest.fixture(scope="module")
def open_memories() -> Iterator[dict[str, WorkingMemoryStore]]:
    """The same for the stores of working memory."""
    stores: dict[str, WorkingMemoryStore] = {}
    yield stores
    for opened in stores.values():
        opened.close()


@pytest.fixture
def memory_store(
    memory_backend: Backend, memory_config: Config, open_memories: dict[str, WorkingMemoryStore]
) -> Iterator[WorkingMemoryStore]:
    """An empty working memory."""
    if memory_backend.fresh:
        with WorkingMemoryStore.initialize(memory_config) as opened:
            yield opened
    else:
        place = str(memory_config)
        if place not in open_memories:
            open_memories[place] = WorkingMemoryStore.initialize(memory_config)
        yield open_memories[place]


@pytest.fixture
def brief_memory_store(memory_config: Config) -> Iterator[WorkingMemoryStore]:
    """An empty working memory whose entries expire after `TTL`."""
    config = {**memory_config, "ttl_seconds": TTL}
    with WorkingMemoryStore.initialize(config) as opened:
        yield opened


@pytest.fixture(scope="module")
def open_items() -> Iterator[dict[str, LongTermMemoryStore]]:
    """The same for the stores of long-term memory."""
    stores: dict[str, LongTermMemoryStore] = {}
    yield stores
    for opened in stores.values():
        opened.close()


@pytest.fixture
def items(
    item_backend: Backend, item_config: Config, open_items: dict[str, LongTermMemoryStore]
) -> Iterator[LongTermMemoryStore]:
    """An empty long-term memory."""
    if item_backend.fresh:
        with LongTermMemoryStore.initialize(item_config) as opened:
            yield opened
    else:
        place = str(item_config)
        if place not in open_items:
            open_items[place] = LongTermMemoryStore.initialize(item_config)
        yield open_items[place]
