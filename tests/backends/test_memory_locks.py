"""The locks of a working memory in one process: tasks and event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from jazzmine._async.working_memory.backend import Stored
from jazzmine.core.working_memory import InMemoryWorkingMemoryStore, WorkingMemory
from jazzmine.errors import (
    JazzmineError,
    LockTimeoutError,
    NotFoundError,
    StaleWorkingMemoryError,
    WrongEventLoopError,
)


def working_memory(cid: str = "c") -> WorkingMemory:
    return WorkingMemory(cid, "user", "agent")


def locks_in_use(store: InMemoryWorkingMemoryStore) -> int:
    return len(store._updates._calls)


def settle() -> Awaitable[None]:
    """Let every task run until it waits."""
    return asyncio.sleep(0.005)


async def test_the_table_of_locks_does_not_grow_with_the_conversations_ever_seen() -> None:
    store = InMemoryWorkingMemoryStore()

    for number in range(300):
        await store.get_or_create(f"{number}", "user", "agent")
        await store.end_turn(f"{number}", "Hello", "greet")
        async with store.locked(f"{number}") as memory:
            memory.end_turn("Bye", "part")

    assert await store.active_count() == 300
    assert locks_in_use(store) == 0


async def test_errors_leave_no_lock_in_the_table() -> None:
    store = InMemoryWorkingMemoryStore()
    await store.save(working_memory())

    with pytest.raises(NotFoundError):
        await store.end_turn("nobody", "Hello", "greet")
    with pytest.raises(StaleWorkingMemoryError):
        await store.save(working_memory())
    with pytest.raises(ValueError):
        await store.end_turn("c", "\ud800", "greet")
    with pytest.raises(ZeroDivisionError):
        async with store.locked("c"):
            raise ZeroDivisionError
    await store.delete("nobody")

    assert locks_in_use(store) == 0


async def test_time_outs_leave_no_lock_in_the_table() -> None:
    store = InMemoryWorkingMemoryStore(lock_timeout=0.01)
    await store.save(working_memory())

    async with store.locked("c"):
        for _ in range(3):
            with pytest.raises(LockTimeoutError):
                await store.end_turn("c", "Hello", "greet")

    assert locks_in_use(store) == 0


async def test_the_lock_is_released_if_what_is_stored_cannot_be_copied() -> None:
    store = InMemoryWorkingMemoryStore(lock_timeout=1)
    await store.save(working_memory())
    backend: Any = store.backend
    broken = Stored("a.1", object.__new__(WorkingMemory))
    store._updates._known.clear()
    kept = backend._kept["c"]
    backend._kept["c"] = replace(kept, stored=broken)
    with pytest.raises(AttributeError):
        await store.end_turn("c", "Hello", "greet")
    backend._kept["c"] = kept
    store._updates._known.clear()

    updated = await store.end_turn("c", "Hello", "greet")

    assert updated.revision == 2
    assert locks_in_use(store) == 0


async def test_a_very_long_lock_timeout_is_allowed() -> None:
    store = InMemoryWorkingMemoryStore(lock_timeout=1e300)
    await store.save(working_memory())

    async with store.locked("c"):
        waiting = asyncio.create_task(store.end_turn("c", "Hello", "greet"))
        await settle()

    assert (await waiting).revision == 3


async def test_a_task_cancelled_while_it_waits_for_a_lock_leaves_the_queue() -> None:
    store = InMemoryWorkingMemoryStore()
    await store.save(working_memory())

    async with store.locked("c"):
        cancelled = asyncio.create_task(store.end_turn("c", "cancelled", "greet"))
        following = asyncio.create_task(store.end_turn("c", "following", "greet"))
        await settle()
        cancelled.cancel()
        await settle()
        was_cancelled = cancelled.cancelled()
    updated = await following

    assert was_cancelled
    assert (updated.last_agent_response, updated.revision) == ("following", 3)
    assert locks_in_use(store) == 0


async def test_a_task_cancelled_in_the_moment_it_gets_the_lock_passes_it_on() -> None:
    store = InMemoryWorkingMemoryStore()
    await store.save(working_memory())
    async with store.locked("c"):
        cancelled = asyncio.create_task(store.end_turn("c", "cancelled", "greet"))
        following = asyncio.create_task(store.end_turn("c", "following", "greet"))
        await settle()

    # The lock has been passed on, and the task that has it now has not run since.
    cancelled.cancel()
    updated = await following

    assert cancelled.cancelled()
    assert (updated.last_agent_response, updated.revision) == ("following", 3)
    assert locks_in_use(store) == 0


async def test_a_task_cancelled_in_a_block_saves_nothing_and_releases_the_lock() -> None:
    store = InMemoryWorkingMemoryStore()
    saved = await store.save(working_memory())

    async def change() -> None:
        async with store.locked("c") as memory:
            memory.end_turn("half done", "greet")
            await asyncio.Event().wait()

    task = asyncio.create_task(change())
    await settle()
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert await store.get("c") == saved
    assert locks_in_use(store) == 0


@pytest.mark.parametrize("ticks", range(8))
async def test_a_cancellation_at_any_step_of_an_update_leaves_the_store_usable(ticks: int) -> None:
    store = InMemoryWorkingMemoryStore(lock_timeout=2)
    await store.save(working_memory())

    async def hold() -> None:
        async with store.locked("c") as memory:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            memory.end_turn("held", "greet")

    calls = [hold(), store.end_turn("c", "Hello", "greet"), hold(), hold()]
    tasks = [asyncio.create_task(call) for call in calls]
    for _ in range(ticks):
        await asyncio.sleep(0)
    tasks[1].cancel()
    tasks[2].cancel()
    await asyncio.wait(tasks)

    completed = sum(not task.cancelled() for task in tasks)
    assert (await store.end_turn("c", "usable", "greet")).revision == completed + 2
    assert locks_in_use(store) == 0


async def test_a_new_task_does_not_overtake_waiting_ones() -> None:
    store = InMemoryWorkingMemoryStore()
    await store.save(working_memory())
    async with store.locked("c"):
        waiting = asyncio.create_task(store.end_turn("c", "waited", "greet"))
        await settle()

    newcomer = await store.end_turn("c", "came late", "greet")

    assert (await waiting).revision == 3
    assert newcomer.revision == 4


async def use_all(store: InMemoryWorkingMemoryStore) -> list[type[BaseException]]:
    """Call every method, and return the classes of the errors."""

    async def enter() -> None:
        async with store.locked("c"):
            pytest.fail("the block was entered")

    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.get("c"),
        lambda: store.get_or_create("c", "user", "agent"),
        lambda: store.save(working_memory()),
        lambda: store.delete("c"),
        store.active_count,
        lambda: store.end_turn("c", "Hello", "greet"),
        enter,
        store.__aenter__,
        store.close,
    ]
    outcomes = await asyncio.gather(*(call() for call in calls), return_exceptions=True)
    return [type(outcome) for outcome in outcomes if isinstance(outcome, JazzmineError)]


def test_a_store_refuses_every_call_from_another_event_loop() -> None:
    store = InMemoryWorkingMemoryStore()
    asyncio.run(store.save(working_memory()))

    errors = asyncio.run(use_all(store))

    assert errors == [WrongEventLoopError] * 9


def test_the_refusal_of_another_event_loop_says_what_to_do() -> None:
    store = asyncio.run(InMemoryWorkingMemoryStore.initialize("memory:"))

    with pytest.raises(WrongEventLoopError, match=r"in each loop.*asyncio\.run.*jazzmine\.sync"):
        asyncio.run(store.get("c"))


def test_a_store_belongs_to_the_event_loop_that_used_it_first() -> None:
    store = InMemoryWorkingMemoryStore()

    async def save_and_get() -> WorkingMemory | None:
        await store.save(working_memory())
        return await store.get("c")

    assert asyncio.run(save_and_get()) is not None
