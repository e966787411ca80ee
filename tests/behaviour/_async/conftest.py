"""An open store of each back end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from jazzmine.core.message_store import MessageStore
from jazzmine.core.working_memory import WorkingMemoryStore
from tests.behaviour.backends import Config
from tests.behaviour.samples import conversation


@pytest.fixture
async def store(config: Config) -> AsyncIterator[MessageStore]:
    """An empty message store; `config` opens others on the same data."""
    async with await MessageStore.initialize(config) as opened:
        yield opened


@pytest.fixture
async def chat(store: MessageStore) -> MessageStore:
    """The same store, in which there is a conversation already: "c1"."""
    await store.store_conversation(conversation())
    return store


@pytest.fixture
async def memory_store(memory_config: Config) -> AsyncIterator[WorkingMemoryStore]:
    """An empty working memory."""
    async with await WorkingMemoryStore.initialize(memory_config) as opened:
        yield opened
