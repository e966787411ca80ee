"""How the adapters call a store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from jazzmine.adapters._calls import (
    as_async,
    finished,
    require_session_id,
    retry_conflicts,
    retry_conflicts_sync,
)
from jazzmine.core import MessageStore
from jazzmine.errors import ConflictError
from jazzmine.sync import MessageStore as SyncMessageStore


@pytest.mark.parametrize("missing", [None, ""])
def test_a_missing_session_id_is_a_value_error(missing: object) -> None:
    with pytest.raises(ValueError, match="missing"):
        require_session_id(missing)


def test_a_session_id_of_another_type_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="must be a str"):
        require_session_id(7)


async def test_a_sync_store_is_called_in_threads(tmp_path: Path) -> None:
    with SyncMessageStore.initialize(f"json:{tmp_path}/m.json") as store:
        assert await as_async(store).get_conversation_by_id("c") is None


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


async def test_an_error_of_a_finished_call_is_raised() -> None:
    async def fail() -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await finished(fail())


async def test_conflicts_are_tried_again() -> None:
    left = [ConflictError("first"), ConflictError("second")]

    def attempt() -> str:
        if left:
            raise left.pop()
        return "done"

    async def attempt_async() -> str:
        return attempt()

    assert await retry_conflicts(attempt_async) == "done"
    left.append(ConflictError("third"))
    assert retry_conflicts_sync(attempt) == "done"


async def test_conflicts_without_end_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jazzmine.adapters._calls._RETRY_SECONDS", 0.01)

    async def attempt() -> None:
        raise ConflictError("again")

    with pytest.raises(ConflictError, match="again"):
        await retry_conflicts(attempt)
