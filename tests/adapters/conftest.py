"""Stores for the tests of adapters; the tests of a framework that is missing are skipped."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jazzmine.core import MessageStore
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.frameworks import FRAMEWORKS, missing
from tests.behaviour.backends import ITEM_BACKENDS, MESSAGE_BACKENDS, Backend, Config
from tests.encryption.keys import FIRST, as_text

_TESTED = re.compile(r"test_({})(_.*)?\.py".format("|".join(FRAMEWORKS)))


class _LeftOut(pytest.Module):
    """A module of tests that import what is not installed."""

    reason = ""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        pytest.skip(self.reason, allow_module_level=True)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Skip the tests of a framework that is not installed."""
    found = _TESTED.fullmatch(module_path.name)
    reason = missing(found[1]) if found else ""
    if not reason:
        return None
    left_out = _LeftOut.from_parent(parent, path=module_path)
    left_out.reason = reason
    return left_out


@contextmanager
def _encrypted() -> Iterator[Config]:
    with MESSAGE_BACKENDS[0].open_config() as config:
        yield {**config, "encryption": as_text(FIRST)}


# An adapter calls public methods alone, which are the same on a variant of a back end.
_BACKENDS = [
    *(one for one in MESSAGE_BACKENDS if not one.variant),
    replace(MESSAGE_BACKENDS[0], name="encrypted", open_config=_encrypted),
]


@pytest.fixture(params=_BACKENDS, ids=str)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each back end of a message store."""
    chosen: Backend = request.param
    return chosen


@pytest.fixture
def config(backend: Backend) -> Iterator[Config]:
    """The configuration of an empty message store."""
    with backend.open_config() as configuration:
        yield configuration


@pytest.fixture(params=[one for one in ITEM_BACKENDS if not one.variant], ids=str)
def item_config(request: pytest.FixtureRequest) -> Iterator[Config]:
    """The configuration of an empty long-term memory, of each back end."""
    with request.param.open_config() as configuration:
        yield configuration


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of a message store that is not made yet, for what is the same on each back end."""
    return f"sqlite:{tmp_path}/messages.db"


@pytest.fixture
async def store(config: Config) -> AsyncIterator[MessageStore]:
    """An open store with the async API."""
    async with await MessageStore.initialize(config) as opened:
        yield opened


@pytest.fixture
def sync_store(config: Config) -> Iterator[SyncMessageStore]:
    """An open store with the sync API, on the same data."""
    with SyncMessageStore.initialize(config) as opened:
        yield opened


@pytest.fixture
def conversations(store: MessageStore) -> Any:
    """The conversations of Pydantic AI."""
    from jazzmine.adapters.pydantic_ai import JazzmineConversationStore

    return JazzmineConversationStore(store, agent_id="a1", user_id="u1")


@pytest.fixture
def repository(sync_store: SyncMessageStore) -> Any:
    """The sessions of Strands Agents."""
    from jazzmine.adapters.strands import JazzmineSessionRepository

    return JazzmineSessionRepository(sync_store, user_id="u1", agent_id="a1")


@pytest.fixture
def session(repository: Any) -> Any:
    """A stored session `s1` of Strands Agents, with an agent `guide`."""
    from strands.types.session import Session, SessionType

    from tests.adapters.scripted_strands import state

    session = repository.create_session(Session(session_id="s1", session_type=SessionType.AGENT))
    repository.create_agent("s1", state())
    return session
