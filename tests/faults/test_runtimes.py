"""The stores on other event loops than asyncio's default, in greenlets, and without threads."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import uvloop

from jazzmine.core import MessageStore
from tests.behaviour.samples import conversation
from tests.faults import test_cancelled
from tests.faults.networks import config_of
from tests.faults.test_cancelled import STORES, cancel_at_random, is_whole, opened

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
