"""Fixtures: the configurations with which the stores of both APIs are opened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.behaviour.backends import MEMORY_BACKENDS, MESSAGE_BACKENDS, Backend, Config


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


@pytest.fixture
def shared_memory_config(memory_backend: Backend, memory_config: Config) -> Config:
    """The same, if the back end lets a second store use the same data."""
    if not memory_backend.shared:
        pytest.skip(
            f"a second store of the back end {memory_backend} has data of its own (on any machine)"
        )
    return memory_config
