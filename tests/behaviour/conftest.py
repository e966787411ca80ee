"""Fixtures: the configurations with which the stores of both APIs are opened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.behaviour.backends import (
    ITEM_BACKENDS,
    MEMORY_BACKENDS,
    MESSAGE_BACKENDS,
    SEARCH_BACKENDS,
    Backend,
    Config,
)


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


@pytest.fixture(params=SEARCH_BACKENDS, ids=str)
def search_backend(request: pytest.FixtureRequest) -> Backend:
    """Each back end of a message store with an index of words."""
    chosen: Backend = request.param
    return chosen


@pytest.fixture
def search_config(search_backend: Backend) -> Iterator[Config]:
    """The configuration of an empty message store with an index of English words."""
    with search_backend.open_config() as configuration:
        yield {**configuration, "search": "english"}
