"""How the adapters call a store."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path

import anyio
import pytest

from jazzmine.adapters._calls import (
    AsyncCalls,
    as_async,
    completed,
    finished,
    require_session_id,
    retry_conflicts,
)
from jazzmine.core import MessageStore
from jazzmine.errors import ConflictError, StoreUnavailableError
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.backends.postgres_samples import behind
from tests.servers import postgres
from tests.servers.proxy import Proxy


def test_a_session_id_of_another_type_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="must be a str"):
        require_session_id(7)


async def test_sessions_at_a_silent_server_do_not_wait_for_each_other() -> None:
    with Proxy(postgres.port_of(postgres.dsn())) as proxy, postgres.empty_schema() as schema:
        options = behind(proxy, schema, timeout=3, pool_min=1, pool_max=40)
        with SyncMessageStore.initialize(options) as store:
            proxy.swallow_replies = True
            begun = time.monotonic()
            calls = (as_async(store).get_conversation_by_id(f"c{n}") for n in range(40))
            ends = [_end(asyncio.ensure_future(call), begun) for call in calls]
            # A tool of the program runs in the loop's own threads meanwhile.
            await asyncio.wait_for(asyncio.to_thread(time.sleep, 0), 2.5)
            latest = max(await asyncio.gather(*ends))

    # With six threads, the last of the calls would end after 21 s.
    assert latest < 3 + 5


async def _end(call: asyncio.Future[object], begun: float) -> float:
    with pytest.raises(StoreUnavailableError):
        await call
    return time.monotonic() - begun


async def test_a_sync_store_is_called_in_the_context_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = ContextVar("name", default="none")
    seen = []

    def on_read(conversation_id: str) -> None:
        seen.append((conversation_id, name.get()))

    with SyncMessageStore.initialize(f"json:{tmp_path}/m.json") as store:
        name.set("caller")
        monkeypatch.setattr(store, "get_conversation_by_id", on_read)
        await as_async(store).get_conversation_by_id("c")
    assert seen == [("c", "caller")]


def test_a_forked_process_has_threads_of_its_own(tmp_path: Path) -> None:
    async def read(store: SyncMessageStore) -> None:
        assert await as_async(store).get_conversation_by_id("c") is None

    with SyncMessageStore.initialize(f"json:{tmp_path}/m.json") as store:
        asyncio.run(read(store))
        child = os.fork()
        if child == 0:
            status = 1
            try:
                asyncio.run(asyncio.wait_for(read(store), 10))
                status = 0
            finally:
                os._exit(status)
        with ThreadPoolExecutor(1) as thread:
            _, status = thread.submit(os.waitpid, child, 0).result(timeout=30)
    assert status == 0


async def test_an_async_store_is_used_as_it_is(tmp_path: Path) -> None:
    async with await MessageStore.initialize(f"json:{tmp_path}/m.json") as store:
        assert as_async(store) is store


def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a MessageStore"):
        as_async("json:m.json")  # type: ignore[arg-type]


async def test_a_call_that_was_begun_ends_before_its_cancellation() -> None:
    started, may_end, ended = asyncio.Event(), asyncio.Event(), []

    async def write() -> None:
        started.set()
        await may_end.wait()
        ended.append(True)

    task = asyncio.create_task(finished(write()))
    await started.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    may_end.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended


async def test_a_cancelled_scope_of_anyio_waits_without_work() -> None:
    ended = []

    async def write() -> None:
        await asyncio.sleep(0.5)
        ended.append(True)

    used = time.thread_time()
    with anyio.move_on_after(0.01) as scope:
        await finished(write())

    assert scope.cancelled_caught
    assert ended
    # Cancelled again at each turn of the loop, it would work all the time.
    assert time.thread_time() - used < 0.25


async def test_an_error_of_a_finished_call_is_raised() -> None:
    async def fail() -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await finished(fail())


async def test_conflicts_are_tried_again() -> None:
    left = [ConflictError("first"), ConflictError("second")]

    async def attempt() -> str:
        if left:
            raise left.pop()
        return "done"

    assert await retry_conflicts(attempt) == "done"
    left.append(ConflictError("third"))
    assert completed(retry_conflicts(attempt, AsyncCalls(None, in_threads=False))) == "done"


async def test_conflicts_without_end_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jazzmine.adapters._calls._RETRY_SECONDS", 0.01)

    async def attempt() -> None:
        raise ConflictError("again")

    with pytest.raises(ConflictError, match="again"):
        await retry_conflicts(attempt)
