"""The locks of a working memory in one process: tasks and event loops."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jazzmine._async.keyed_locks import KeyedLocks
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


async def test_the_table_of_locks_has_those_in_use() -> None:
    store = InMemoryWorkingMemoryStore()
    await store.save(working_memory("a"))
    await store.save(working_memory("b"))

    async with store.locked("a"), store.locked("b"):
        during = locks_in_use(store)

    assert during == 2
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
    backend._kept["c"] = kept._replace(stored=broken)
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


async def test_a_task_cancelled_at_its_deadline_does_not_change_the_lock() -> None:
    locks: KeyedLocks[str] = KeyedLocks()
    await locks.acquire("c", "holder", 1)
    waiting = asyncio.create_task(locks.acquire("c", "waiting", 5))
    await asyncio.sleep(0)
    # As the timer does; the task cannot notice before it is cancelled.
    turn = locks._queues["c"]["waiting"]
    assert turn is not None
    [waiter] = turn._waiting
    waiter.set_result(False)

    waiting.cancel()
    await asyncio.wait([waiting])
    locks.release("c", "waiting")

    assert locks.holder("c") == "holder"
    locks.release("c", "holder")
    assert len(locks) == 0


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


async def test_after_two_hundred_random_cancellations_the_store_is_usable() -> None:
    store = InMemoryWorkingMemoryStore(lock_timeout=5)
    dice = random.Random(7)
    for cid in "abc":
        await store.save(working_memory(cid))

    async def update(cid: str) -> str:
        await store.end_turn(cid, "Hello", "greet")
        return cid

    async def change(cid: str) -> str:
        async with store.locked(cid) as memory:
            await asyncio.sleep(dice.choice([0, 0, 0.0005]))
            memory.end_turn("Hello", "greet")
        return cid

    tasks: list[asyncio.Task[str]] = []
    cancellations = 0
    while cancellations < 200:
        tasks += [
            asyncio.create_task(dice.choice([update, change])(dice.choice("abc"))) for _ in "12"
        ]
        await asyncio.sleep(dice.choice([0, 0, 0, 0.0005]))
        cancellations += dice.choice(tasks[-9:]).cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert not any(isinstance(each, Exception) for each in outcomes)
    for cid in "abc":
        assert (await store.end_turn(cid, "usable", "greet")).revision == outcomes.count(cid) + 2
    assert locks_in_use(store) == 0


async def test_waiting_tasks_are_served_in_order() -> None:
    store = InMemoryWorkingMemoryStore()
    await store.save(working_memory())
    served: list[int] = []

    async def change(number: int) -> None:
        async with store.locked("c"):
            served.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*(change(number) for number in range(20)))

    assert served == list(range(20))


async def test_a_new_task_does_not_overtake_waiting_ones() -> None:
    store = InMemoryWorkingMemoryStore()
    await store.save(working_memory())
    async with store.locked("c"):
        waiting = asyncio.create_task(store.end_turn("c", "waited", "greet"))
        await settle()

    newcomer = await store.end_turn("c", "came late", "greet")

    assert (await waiting).revision == 3
    assert newcomer.revision == 4


async def test_a_task_that_timed_out_is_passed_over() -> None:
    locks: KeyedLocks[str] = KeyedLocks()
    await locks.acquire("c", "holder", 1)
    impatient = asyncio.create_task(locks.acquire("c", "impatient", 0.001))
    waiting = asyncio.create_task(locks.acquire("c", "waiting", 5))
    acquired = await impatient
    locks.release("c", "impatient")

    locks.release("c", "holder")

    assert acquired is False
    assert await waiting is True
    locks.release("c", "waiting")
    assert len(locks) == 0


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
