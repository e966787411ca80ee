"""An open store of each back end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.behaviour.backends import Config
from tests.behaviour.samples import conversation


@pytest.fixture
def store(config: Config) -> Iterator[MessageStore]:
    """An empty message store; `config` opens others on the same data."""
    with MessageStore.initialize(config) as opened:
        yield opened


@pytest.fixture
def chat(store: MessageStore) -> MessageStore:
    """The same store, in which there is a conversation already: "c1"."""
    store.store_conversation(conversation())
    return store


@pytest.fixture
def memory_store(memory_config: Config) -> Iterator[WorkingMemoryStore]:
    """An empty working memory."""
    with WorkingMemoryStore.initialize(memory_config) as opened:
        yield opened
