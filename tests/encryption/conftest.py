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


def _shared(backends: list[Backend]) -> list[Backend]:
    """Those whose data outlives a store, without other ways to the same mechanism."""
    return [one for one in backends if one.name == "json" or (one.shared and not one.variant)]


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
