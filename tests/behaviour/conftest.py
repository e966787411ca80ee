"""Fixtures: an open store of each back end, in both APIs, and its configuration."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from jazzmine.core.long_term_memory import LongTermMemoryStore
from jazzmine.core.message_store import MessageStore
from jazzmine.core.working_memory import WorkingMemoryStore
from tests.behaviour.apis import APIS, Api
from tests.behaviour.backends import (
    ITEM_BACKENDS,
    MEMORY_BACKENDS,
    MESSAGE_BACKENDS,
    Backend,
    Config,
)
from tests.behaviour.memory_samples import TTL
from tests.behaviour.samples import conversation


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of a back end whose stores share nothing, if they need a second one."""
    left = [item for item in items if _needs_shared_data(item)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in set(left)]


def _needs_shared_data(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    backend = item.callspec.params.get("backend")
    if not isinstance(backend, Backend) or backend.shared:
        return False
    fixtures = item._fixtureinfo.name2fixturedefs
    users = [fixtures[name][-1].argnames for name in fixtures if name != "store"]
    return any("config" in names for names in (item._fixtureinfo.argnames, *users))


@pytest.fixture(params=APIS, ids=str, scope="module")
def api(request: pytest.FixtureRequest) -> Api:
    """The async API, and the sync API with calls that can be awaited."""
    chosen: Api = request.param
    return chosen


@pytest.fixture(params=MESSAGE_BACKENDS, ids=str)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each back end of a message store."""
    chosen: Backend = request.param
    return chosen


@pytest.fixture
def config(backend: Backend) -> Iterator[Config]:
    """The configuration of an empty message store, to open one or several with."""
    with backend.open_config() as configuration:
        yield configuration


@pytest.fixture(params=MEMORY_BACKENDS, ids=str)
def memory_backend(request: pytest.FixtureRequest) -> Backend:
    """Each back end of a working memory."""
    chosen: Backend = request.param
    return chosen


@pytest.fixture
def memory_config(memory_backend: Backend) -> Iterator[Config]:
    """The configuration of an empty working memory."""
    with memory_backend.open_config() as configuration:
        yield configuration


@pytest.fixture(params=ITEM_BACKENDS, ids=str)
def item_backend(request: pytest.FixtureRequest) -> Backend:
    """Each back end of a long-term memory."""
    chosen: Backend = request.param
    return chosen


@pytest.fixture
def item_config(item_backend: Backend) -> Iterator[Config]:
    """The configuration of an empty long-term memory."""
    with item_backend.open_config() as configuration:
        yield configuration


@pytest.fixture(params=MESSAGE_BACKENDS, ids=str)
def search_backend(request: pytest.FixtureRequest) -> Backend:
    """Each back end of a message store, for one with a search index."""
    chosen: Backend = request.param
    return chosen


@pytest.fixture
def search_config(search_backend: Backend) -> Iterator[Config]:
    """The configuration of an empty message store with an index of English words."""
    with search_backend.open_config() as configuration:
        yield {**configuration, "search": "english"}


@pytest.fixture(scope="module")
async def open_stores(api: Api) -> AsyncIterator[dict[str, MessageStore]]:
    """The message stores that the tests of a module share in one API, by configuration."""
    stores: dict[str, MessageStore] = {}
    yield stores
    for opened in stores.values():
        await opened.close()


@pytest.fixture
async def store(
    api: Api, backend: Backend, config: Config, open_stores: dict[str, MessageStore]
) -> AsyncIterator[MessageStore]:
    """An empty message store; `config` opens others on the same data.

    Opening a store takes longer than most tests, if not in memory or on a JSON file.
    """
    if backend.fresh:
        async with await api.MessageStore.initialize(config) as opened:
            yield opened
    else:
        place = str(config)
        if place not in open_stores:
            open_stores[place] = await api.MessageStore.initialize(config)
        yield open_stores[place]


@pytest.fixture
async def chat(store: MessageStore) -> MessageStore:
    """The same store with one conversation, "c1"."""
    await store.store_conversation(conversation())
    return store


@pytest.fixture
async def searched(api: Api, search_config: Config) -> AsyncIterator[MessageStore]:
    """An empty message store with an index of English words."""
    async with await api.MessageStore.initialize(search_config) as opened:
        yield opened
        await opened.backend.make_search(None)  # other tests get the same place


@pytest.fixture(scope="module")
async def open_memories(api: Api) -> AsyncIterator[dict[str, WorkingMemoryStore]]:
    """The same for the stores of working memory."""
    stores: dict[str, WorkingMemoryStore] = {}
    yield stores
    for opened in stores.values():
        await opened.close()


@pytest.fixture
async def memory_store(
    api: Api,
    memory_backend: Backend,
    memory_config: Config,
    open_memories: dict[str, WorkingMemoryStore],
) -> AsyncIterator[WorkingMemoryStore]:
    """An empty working memory."""
    if memory_backend.fresh:
        async with await api.WorkingMemoryStore.initialize(memory_config) as opened:
            yield opened
    else:
        place = str(memory_config)
        if place not in open_memories:
            open_memories[place] = await api.WorkingMemoryStore.initialize(memory_config)
        yield open_memories[place]


@pytest.fixture
async def brief_memory_store(api: Api, memory_config: Config) -> AsyncIterator[WorkingMemoryStore]:
    """An empty working memory whose entries expire after `TTL`."""
    config = {**memory_config, "ttl_seconds": TTL}
    async with await api.WorkingMemoryStore.initialize(config) as opened:
        yield opened


@pytest.fixture(scope="module")
async def open_items(api: Api) -> AsyncIterator[dict[str, LongTermMemoryStore]]:
    """The same for the stores of long-term memory."""
    stores: dict[str, LongTermMemoryStore] = {}
    yield stores
    for opened in stores.values():
        await opened.close()


@pytest.fixture
async def items(
    api: Api, item_backend: Backend, item_config: Config, open_items: dict[str, LongTermMemoryStore]
) -> AsyncIterator[LongTermMemoryStore]:
    """An empty long-term memory."""
    if item_backend.fresh:
        async with await api.LongTermMemoryStore.initialize(item_config) as opened:
            yield opened
    else:
        place = str(item_config)
        if place not in open_items:
            open_items[place] = await api.LongTermMemoryStore.initialize(item_config)
        yield open_items[place]
