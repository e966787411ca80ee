"""An async store belongs to the event loop that opened it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jazzmine.core import MessageStore, WorkingMemoryStore
from jazzmine.errors import WrongEventLoopError
from tests.behaviour.samples import conversation, message
from tests.faults.networks import config_of
from tests.faults.test_threads_and_forks import MEMORIES, MESSAGE_STORES

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


@pytest.mark.parametrize("name", ["json", "sqlite", "memory"])
def test_tools_that_block_all_threads_of_the_event_loop_delay_no_call(
    name: str, tmp_path: Path
) -> None:
    tools_end = threading.Event()

    async def read_beside_tools(config: Any) -> int:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        tools = [loop.run_in_executor(None, tools_end.wait) for _ in range(40)]
        try:
            async with await MessageStore.initialize(config) as store:
                await store.store_conversation(conversation("c1"))
                await store.store_messages([message(f"m{n}") for n in range(200)])
                return len(await store.get_messages_by_conversation_id("c1"))
        finally:
            assert not any(tool.done() for tool in tools)
            tools_end.set()

    with config_of(name, tmp_path) as config:
        assert asyncio.run(read_beside_tools(config)) == 200
