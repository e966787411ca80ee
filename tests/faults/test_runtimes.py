"""The stores on other event loops than their own and asyncio's, in greenlets, without threads."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import uvloop

from jazzmine.core import MessageStore, WorkingMemoryStore
from jazzmine.errors import WrongEventLoopError
from tests.behaviour.samples import conversation, message
from tests.faults import test_cancelled
from tests.faults.networks import config_of
from tests.faults.test_cancelled import STORES, cancel_at_random, is_whole, opened
from tests.faults.test_threads_and_forks import MEMORIES, MESSAGE_STORES

pytestmark = test_cancelled.pytestmark

PYTHON_WITH_GEVENT = [sys.executable, "-m", "gevent.monkey", "--module"]

NewLoop = Callable[[], asyncio.AbstractEventLoop]


def eager_loop() -> asyncio.AbstractEventLoop:
    """A loop whose tasks begin at once, before `create_task` returns."""
    loop = asyncio.new_event_loop()
    if sys.version_info >= (3, 12):
        loop.set_task_factory(asyncio.eager_task_factory)
    return loop


LOOPS: dict[str, NewLoop] = {"uvloop": uvloop.new_event_loop}
if sys.version_info >= (3, 12):
    LOOPS["eager tasks"] = eager_loop


@pytest.mark.parametrize("new_loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("name", STORES)
def test_calls_are_made_at_once_and_cancelled(name: str, new_loop: NewLoop, tmp_path: Path) -> None:
    async def use() -> None:
        async with opened(name, config) as (store, calls):
            await cancel_at_random(store, calls, seed=2, cancellations=40)
            await is_whole(store, calls)

    loop = new_loop()
    try:
        with config_of(name, tmp_path) as config:
            loop.run_until_complete(use())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def test_greenlets_share_the_sync_stores(tmp_path: Path) -> None:
    with ExitStack() as stack:
        configs = {name: stack.enter_context(config_of(name, tmp_path)) for name in STORES}

        done = subprocess.run(
            [*PYTHON_WITH_GEVENT, "tests.faults.gevent_program", json.dumps(configs)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    found = {
        name: one for line in done.stdout.splitlines() for name, one in json.loads(line).items()
    }
    assert list(found) == STORES
    assert [name for name, one in found.items() if one["found"] != one["stored"]] == []


@pytest.mark.parametrize("name", ["json", "sqlite"])
async def test_a_write_needs_no_free_thread(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with config_of(name, tmp_path) as config:
        async with await MessageStore.initialize(config) as store:
            with monkeypatch.context() as patched:
                patched.setattr(threading.Thread, "start", refuse)
                await asyncio.wait_for(store.store_conversation(conversation("c1")), 20)

            assert await store.get_conversation_by_id("c1") is not None


OPENED: list[tuple[Any, str]] = [(MessageStore, name) for name in MESSAGE_STORES]
OPENED += [(WorkingMemoryStore, name) for name in MEMORIES]


@pytest.mark.parametrize(("kind", "name"), OPENED)
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
