"""Fixtures: the back ends of each kind of store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.behaviour.backends import (
    ITEM_BACKENDS,
    MEMORY_BACKENDS,
    MESSAGE_BACKENDS,
    Backend,
    Config,
)
from tests.encryption.keys import ITEM_KIND, MESSAGE_KIND, STATE_KIND, Kind


def _shared(backends: list[Backend]) -> list[Backend]:
    """Those whose data outlives a store, without other ways to the same mechanism."""
    return [one for one in backends if one.name == "json" or (one.shared and not one.variant)]


ALL = [
    *((MESSAGE_KIND, backend) for backend in _shared(MESSAGE_BACKENDS)),
    *((STATE_KIND, backend) for backend in _shared(MEMORY_BACKENDS)),
    *((ITEM_KIND, backend) for backend in _shared(ITEM_BACKENDS)),
]


@pytest.fixture(params=ALL, ids=lambda one: f"{one[0].store.__name__}-{one[1]}")
def stored(request: pytest.FixtureRequest) -> Iterator[tuple[Kind, Config]]:
    """A kind of store, and the configuration of an empty one."""
    kind, backend = request.param
    with backend.open_config() as config:
        yield kind, config


@pytest.fixture(params=_shared(MESSAGE_BACKENDS), ids=str)
def messages_config(request: pytest.FixtureRequest) -> Iterator[Config]:
    """The configuration of an empty message store."""
    with request.param.open_config() as config:
        yield config


@pytest.fixture(params=_shared(MEMORY_BACKENDS), ids=str)
def memory_config(request: pytest.FixtureRequest) -> Iterator[Config]:
    """The configuration of an empty working memory."""
    with request.param.open_config() as config:
        yield config


@pytest.fixture(params=_shared(ITEM_BACKENDS), ids=str)
def items_config(request: pytest.FixtureRequest) -> Iterator[Config]:
    """The configuration of an empty long-term memory."""
    with request.param.open_config() as config:
        yield config
