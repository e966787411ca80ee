"""Fixtures: an open store of each back end, in both APIs, and its configuration."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

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


def each_of(backends: list[Backend]) -> Any:
    """Return a fixture with each back end of a kind of store."""

    def backend(request: pytest.FixtureRequest) -> Backend:
        chosen: Backend = request.param
        return chosen

    return pytest.fixture(backend, params=backends, ids=str)


backend = each_of(MESSAGE_BACKENDS)
memory_backend = each_of(MEMORY_BACKENDS)
item_backend = each_of(ITEM_BACKENDS)
search_backend = each_of(MESSAGE_BACKENDS)


@pytest.fixture
def config(backend: Backend) -> Iterator[Config]:
    """The configuration of an empty message store, to open one or several with."""
    with backend.open_config() as configuration:
        yield configuration


@pytest.fixture
def memory_config(memory_backend: Backend) -> Iterator[Config]:
    """The configuration of an empty working memory."""
    with memory_backend.open_config() as configuration:
        yield configuration


@pytest.fixture
def item_config(item_backend: Backend) -> Iterator[Config]:
    """The configuration of an empty long-term memory."""
    with item_backend.open_config() as configuration:
        yield configuration


@pytest.fixture
def search_config(search_backend: Backend) -> Iterator[Config]:
    """The configuration of an empty message store with an index of English words."""
    with search_backend.open_config() as configuration:
        yield {**configuration, "search": "english"}


@pytest.fixture(scope="module")
async def open_stores() -> AsyncIterator[dict[str, Any]]:
    """The stores that the tests of a module share, by their kind and their configuration."""
    stores: dict[str, Any] = {}
    yield stores
    for opened in stores.values():
        await opened.close()


@asynccontextmanager
async def opened(
    kind: Any, backend: Backend, config: Config, open_stores: dict[str, Any]
) -> AsyncIterator[Any]:
    """A store of a kind, which takes longer to open than most tests, if not in a fresh place."""
    if backend.fresh:
        async with await kind.initialize(config) as store:
            yield store
    else:
        place = f"{kind!r} {config}"
        if place not in open_stores:
            open_stores[place] = await kind.initialize(config)
        yield open_stores[place]


@pytest.fixture
async def store(
    api: Api, backend: Backend, config: Config, open_stores: dict[str, Any]
) -> AsyncIterator[MessageStore]:
    """An empty message store; `config` opens others on the same data."""
    async with opened(api.MessageStore, backend, config, open_stores) as found:
        yield found


@pytest.fixture
async def chat(store: MessageStore) -> MessageStore:
    """The same store with one conversation, "c1"."""
    await store.store_conversation(conversation())
    return store


@pytest.fixture
async def searched(api: Api, search_config: Config) -> AsyncIterator[MessageStore]:
    """An empty message store with an index of English words."""
    async with await api.MessageStore.initialize(search_config) as found:
        yield found
        await found.backend.make_search(None)  # other tests get the same place


@pytest.fixture
async def memory_store(
    api: Api, memory_backend: Backend, memory_config: Config, open_stores: dict[str, Any]
) -> AsyncIterator[WorkingMemoryStore]:
    """An empty working memory."""
    kind = api.WorkingMemoryStore
    async with opened(kind, memory_backend, memory_config, open_stores) as found:
        yield found


@pytest.fixture
async def items(
    api: Api, item_backend: Backend, item_config: Config, open_stores: dict[str, Any]
) -> AsyncIterator[LongTermMemoryStore]:
    """An empty long-term memory."""
    async with opened(api.LongTermMemoryStore, item_backend, item_config, open_stores) as found:
        yield found
