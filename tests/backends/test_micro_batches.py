"""Calls that wait are sent in one batch, and each has its own outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from jazzmine._compat.async_microbatch import MicroBatcher
from jazzmine.deadline import Deadline


class Writer:
    """Records the items of each batch; the first call waits for `go`, and "bad" is refused."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.ended: list[str] = []
        self.go = asyncio.Event()

    async def write(self, items: Sequence[str], deadline: Deadline) -> None:
        self.calls.append(list(items))
        await self.go.wait()
        if "bad" in items:
            raise ValueError(f"bad, of {len(items)}")
        self.ended += items


def batcher(writer: Writer, max_concurrency: int) -> MicroBatcher[str]:
    return MicroBatcher(writer.write, max_concurrency, lambda: LookupError("no time is left"))


def start(
    batcher: MicroBatcher[str], *items: str, seconds: float = 10.0
) -> list[asyncio.Future[None]]:
    deadline = Deadline(seconds)
    return [asyncio.ensure_future(batcher.run(item, deadline)) for item in items]


async def test_items_that_find_no_free_place_are_one_batch() -> None:
    writer = Writer()
    calls = start(batcher(writer, 2), *"abcde")
    await asyncio.sleep(0)

    writer.go.set()
    await asyncio.gather(*calls)

    assert writer.calls == [["a"], ["b"], ["c", "d", "e"]]


async def test_an_error_reaches_only_the_call_that_caused_it() -> None:
    writer = Writer()
    calls = start(batcher(writer, 1), "a", "b", "bad", "c")
    await asyncio.sleep(0)

    writer.go.set()
    results = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(result) for result in results] == [type(None), type(None), ValueError, type(None)]
    assert str(results[2]) == "bad, of 1"
    assert writer.ended == ["a", "b", "c"]


async def test_a_call_that_is_cancelled_while_it_waits_is_never_sent() -> None:
    writer = Writer()
    calls = start(batcher(writer, 1), "a", "b", "c")
    await asyncio.sleep(0)

    calls[1].cancel()
    await asyncio.sleep(0)
    writer.go.set()
    await asyncio.gather(*calls, return_exceptions=True)

    assert writer.calls == [["a"], ["c"]]


async def two_in_a_batch(
    writer: Writer,
) -> tuple[MicroBatcher[str], asyncio.Future[None], asyncio.Future[None]]:
    """The batcher, and the calls "b" and "c" of a batch that runs until `writer.go` is set."""
    one_by_one = batcher(writer, 1)
    first, *calls = start(one_by_one, "a", "b", "c")
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0.01)
    assert writer.calls == [["a"], ["b", "c"]]
    return one_by_one, calls[0], calls[1]


async def test_a_cancelled_call_ends_with_its_batch() -> None:
    writer = Writer()
    _, cancelled, other = await two_in_a_batch(writer)

    cancelled.cancel()
    await asyncio.sleep(0.01)
    assert not cancelled.done()
    writer.go.set()
    await asyncio.wait([cancelled])

    assert cancelled.cancelled()
    assert writer.ended == ["b", "c"]
    await other


async def test_a_slow_batch_with_a_cancelled_call_is_abandoned_and_sent_without_it() -> None:
    writer = Writer()
    _, cancelled, other = await two_in_a_batch(writer)

    cancelled.cancel()
    await asyncio.wait([cancelled])
    writer.go.set()
    await other

    assert writer.calls[2:] == [["c"]]
    assert writer.ended == ["c"]


async def test_a_call_that_is_cancelled_twice_does_not_end_before_its_batch() -> None:
    writer = Writer()
    _, cancelled, other = await two_in_a_batch(writer)
    writing = asyncio.all_tasks() - {asyncio.current_task(), cancelled, other}

    cancelled.cancel()
    await asyncio.sleep(0.01)
    cancelled.cancel()
    await asyncio.wait([cancelled])

    assert cancelled.cancelled()
    assert all(task.done() for task in writing)
    writer.go.set()
    await other


async def test_a_waiting_item_ends_at_its_own_deadline() -> None:
    writer = Writer()
    one_by_one = batcher(writer, 1)
    [first] = start(one_by_one, "a")
    await asyncio.sleep(0)
    [late] = start(one_by_one, "b", seconds=0.05)

    with pytest.raises(LookupError, match="no time is left"):
        await late

    writer.go.set()
    await first
    assert writer.calls == [["a"]]


async def test_a_batch_has_the_earliest_deadline_and_is_sent_again_for_the_later_ones() -> None:
    calls: list[list[str]] = []

    async def write(items: Sequence[str], deadline: Deadline) -> None:
        calls.append(list(items))
        await asyncio.sleep(min(0.2, deadline.remaining()))
        if deadline.expired:
            raise TimeoutError

    one_by_one: MicroBatcher[str] = MicroBatcher(write, 1, lambda: LookupError("no time is left"))
    [first] = start(one_by_one, "a")
    await asyncio.sleep(0)
    [early], [late] = start(one_by_one, "b", seconds=0.3), start(one_by_one, "c")

    results = await asyncio.gather(first, early, late, return_exceptions=True)

    assert results[0] is results[2] is None
    assert isinstance(results[1], LookupError)
    assert calls == [["a"], ["b", "c"], ["c"]]
