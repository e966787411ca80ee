"""The pages on every back end."""

from __future__ import annotations

from pathlib import Path

import pytest

from jazzmine.core import MessageStore, WorkingMemoryStore
from tests.behaviour.backends import MEMORY_BACKENDS, MESSAGE_BACKENDS, Backend
from tests.inspector.conftest import fill, opened

PATHS = ("/", "/?user=u1&agent=a1", "/conversation?id=c1", "/turns?agent=a1", "/usage?range=all")


@pytest.mark.parametrize(
    "backend", [each for each in MESSAGE_BACKENDS if not each.variant], ids=str
)
async def test_each_message_store_is_shown(backend: Backend) -> None:
    with backend.open_config() as config:
        async with (
            await MessageStore.initialize(config) as store,
            await WorkingMemoryStore.initialize("memory:") as memory,
            opened(store, memory) as site,
        ):
            await fill(store, memory)
            for path in PATHS:
                assert "alert(" in await site.text(path) or path.startswith("/turns")
            first = await site.text("/")
            assert first.index("id=c2") < first.index("id=c1")


@pytest.mark.parametrize("backend", [each for each in MEMORY_BACKENDS if not each.variant], ids=str)
async def test_each_working_memory_is_shown(backend: Backend, tmp_path: Path) -> None:
    with backend.open_config() as config:
        async with (
            await MessageStore.initialize(f"json:{tmp_path / 'shown.json'}") as store,
            await WorkingMemoryStore.initialize(config) as memory,
            opened(store, memory) as site,
        ):
            await fill(store, memory)
            assert "awaiting confirmation" in await site.text("/memory", id="c1")
