"""Changes of tasks that arrive during a commit are committed together, each once."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from typing import Any

import pytest

from jazzmine._async.batcher import Batcher
from tests.backends.committer import Committer, Ledger, adding, in_order, refuse


async def start_held_task(batcher: Batcher[Ledger], commit: Committer) -> asyncio.Task[Any]:
    commit.hold()
    first = asyncio.create_task(batcher.run(adding("first")))
    await asyncio.to_thread(commit.begun.wait, 10)
    return first


async def test_tasks_have_each_change_committed_once_and_in_order() -> None:
    commit = Committer()
    batcher = Batcher(commit)

    async def work(caller: int) -> list[Any]:
        return [await batcher.run(adding((caller, number))) for number in range(100)]

    results = await asyncio.gather(*map(work, range(16)))
    await batcher.close()

    assert results == [[(caller, number) for number in range(100)] for caller in range(16)]
    assert len(commit.ledger) == sum(commit.batches) == 1600
    for caller in range(16):
        assert in_order(commit.ledger, caller) == list(range(100))


async def test_changes_of_tasks_that_arrive_during_a_commit_share_the_next() -> None:
    commit = Committer()
    batcher = Batcher(commit)
    first = await start_held_task(batcher, commit)
    others = [asyncio.create_task(batcher.run(adding(number))) for number in range(8)]
    await asyncio.sleep(0)

    commit.go_on.set()
    await asyncio.gather(first, *others)
    await batcher.close()

    assert commit.batches == [1, 8]
    assert commit.ledger == ["first", *range(8)]


async def test_a_refused_change_of_a_task_leaves_the_others_of_its_commit_alone() -> None:
    commit = Committer()
    batcher = Batcher(commit)
    await start_held_task(batcher, commit)
    calls = [batcher.run(apply) for apply in (adding("before"), refuse, adding("after"))]
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)

    commit.go_on.set()
    before, refused, after = await asyncio.gather(*tasks, return_exceptions=True)
    await batcher.close()

    assert (before, after) == ("before", "after")
    assert isinstance(refused, ValueError)
    assert commit.batches == [1, 3]


async def test_a_failed_commit_is_the_error_of_every_task_in_it_and_of_no_other() -> None:
    commit = Committer()
    batcher = Batcher(commit)
    commit.failure = OSError("disk full")
    failing = await start_held_task(batcher, commit)
    others = [asyncio.create_task(batcher.run(adding(number))) for number in range(3)]
    await asyncio.sleep(0)

    commit.go_on.set()
    outcomes = await asyncio.gather(failing, *others, return_exceptions=True)
    await batcher.close()

    assert isinstance(outcomes[0], OSError)
    assert outcomes[1:] == [0, 1, 2]


async def test_a_task_cancelled_while_it_waits_withdraws_its_change() -> None:
    commit = Committer()
    batcher = Batcher(commit)
    first = await start_held_task(batcher, commit)
    withdrawn = asyncio.create_task(batcher.run(adding("withdrawn")))
    second = asyncio.create_task(batcher.run(adding("second")))
    await asyncio.sleep(0)

    withdrawn.cancel()
    await asyncio.wait([withdrawn])
    commit.go_on.set()
    await asyncio.gather(first, second)
    await batcher.close()

    assert withdrawn.cancelled()
    assert commit.ledger == ["first", "second"]
    assert commit.batches == [1, 1]


async def test_no_commit_is_made_of_nothing() -> None:
    commit = Committer()
    batcher = Batcher(commit)
    first = await start_held_task(batcher, commit)
    withdrawn = asyncio.create_task(batcher.run(adding("withdrawn")))
    await asyncio.sleep(0)
    withdrawn.cancel()
    await asyncio.wait([withdrawn])

    commit.go_on.set()
    await first
    await batcher.close()

    assert commit.batches == [1]


async def test_a_task_cancelled_during_its_commit_affects_no_other() -> None:
    commit = Committer()
    batcher = Batcher(commit)
    cancelled = await start_held_task(batcher, commit)
    second = asyncio.create_task(batcher.run(adding("second")))
    await asyncio.sleep(0)

    cancelled.cancel()
    await asyncio.wait([cancelled])
    commit.go_on.set()
    await second
    await batcher.close()

    assert cancelled.cancelled()
    assert commit.ledger == ["first", "second"]


async def test_a_cancelled_change_whose_commit_failed_leaves_no_unseen_error() -> None:
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    commit = Committer()
    batcher = Batcher(commit)
    commit.failure = OSError("disk full")
    cancelled = await start_held_task(batcher, commit)

    cancelled.cancel()
    await asyncio.wait([cancelled])
    commit.go_on.set()
    await batcher.close()
    await asyncio.sleep(0)

    assert unseen == []


async def test_closing_waits_for_the_commits_of_all_tasks() -> None:
    commit = Committer()
    batcher = Batcher(commit)
    first = await start_held_task(batcher, commit)
    second = asyncio.create_task(batcher.run(adding("second")))
    closing = asyncio.create_task(batcher.close())
    await asyncio.sleep(0.01)
    was_closed = closing.done()

    commit.go_on.set()
    await closing

    assert not was_closed
    assert commit.ledger == ["first", "second"]
    assert (await first, await second) == ("first", "second")


async def test_a_batcher_that_is_dropped_ends_its_thread() -> None:
    batcher = Batcher(Committer())
    await batcher.run(adding("first"))
    threads = [thread for thread in threading.enumerate() if thread.name == "jazzmine-writer"]

    del batcher
    gc.collect()

    assert threads
    for thread in threads:
        await asyncio.to_thread(thread.join, 10)
        assert not thread.is_alive()


@pytest.mark.parametrize("ending", ["", "raise SystemExit", "await batcher.close()"])
def test_a_program_that_ends_during_a_commit_finishes_it(ending: str) -> None:
    program = f"""
import asyncio, time
from jazzmine._async.batcher import Batcher

def commit(changes):
    for change in changes:
        change.claim()
    print("begun", flush=True)
    time.sleep(0.5)
    print("finished", flush=True)

async def main():
    batcher = Batcher(commit)
    call = asyncio.create_task(batcher.run(None))
    await asyncio.sleep(0.1)
    {ending}

asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )

    assert (ended.stdout.split(), ended.stderr) == (["begun", "finished"], "")
