"""The locks of calls by key: how many have one, their order, and time-outs."""

from __future__ import annotations

import asyncio

from jazzmine._async.keyed_locks import KeyedLocks


async def test_one_has_the_lock_of_a_key_at_once_and_others_follow_in_order() -> None:
    locks, order = KeyedLocks[object](), list[int]()
    running = most = 0

    async def call(number: int) -> None:
        nonlocal running, most
        me = object()
        assert await locks.acquire("c", me, 10)
        running += 1
        most = max(most, running)
        order.append(number)
        await asyncio.sleep(0.001)
        running -= 1
        locks.release("c", me)

    await asyncio.gather(*(call(number) for number in range(20)))

    assert most == 1
    assert order == list(range(20))
    assert locks.holder("c") is None


async def test_a_call_that_is_cancelled_at_the_moment_of_its_turn_passes_it_on() -> None:
    locks: KeyedLocks[str] = KeyedLocks()
    assert await locks.acquire("c", "first", 1)
    second = asyncio.create_task(locks.acquire("c", "second", 10))
    third = asyncio.create_task(locks.acquire("c", "third", 10))
    await asyncio.sleep(0)

    locks.release("c", "first")
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    locks.release("c", "second")

    assert await third
