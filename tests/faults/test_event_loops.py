"""An async store belongs to the event loop that opened it."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jazzmine.core import MessageStore, WorkingMemoryStore
from jazzmine.errors import WrongEventLoopError
from tests.faults.test_threads_and_forks import MEMORIES, MESSAGE_STORES, config_of

STORES: list[tuple[Any, str]] = [(MessageStore, name) for name in MESSAGE_STORES]
STORES += [(WorkingMemoryStore, name) for name in MEMORIES]


@pytest.mark.parametrize(("kind", "name"), STORES)
def test_another_event_loop_is_refused(kind: Any, name: str, tmp_path: Path) -> None:
    async def ping_elsewhere() -> None:
        with pytest.raises(WrongEventLoopError, match="another event loop"):
            await store.ping()

    with config_of(name, tmp_path) as config, closing(asyncio.new_event_loop()) as loop:
        store = loop.run_until_complete(kind.initialize(config))
        asyncio.run(ping_elsewhere())
        loop.run_until_complete(store.close())
