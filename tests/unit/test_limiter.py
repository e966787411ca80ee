"""A limit on how many calls do something at once: order, time-outs, and what may be repeated."""

from __future__ import annotations

import asyncio

from jazzmine._async.limiter import Limiter


async def test_no_more_calls_run_at_once_than_may_and_others_run_in_order() -> None:
    limiter, order = Limiter(2), list[int]()
    running = most = 0

    async def call(number: int) -> None:
        nonlocal running, most
        me = object()
        assert await limiter.acquire(me, 10)
        running += 1
        most = max(most, running)
        order.append(number)
        await asyncio.sleep(0.001)
        running -= 1
        limiter.release(me)

    await asyncio.gather(*(call(number) for number in range(20)))

    assert most == 2
    assert order == list(range(20))


async def test_a_call_that_waited_in_vain_leaves_the_others_their_place() -> None:
    limiter = Limiter(1)
    assert await limiter.acquire("first", 1)
    waiting = asyncio.create_task(limiter.acquire("third", 10))

    assert not await limiter.acquire("second", 0.01)
    limiter.release("second")
    limiter.release("second")
    assert not waiting.done()
    limiter.release("first")

    assert await waiting


async def test_a_call_that_is_cancelled_at_the_moment_of_its_turn_passes_it_on() -> None:
    limiter = Limiter(1)
    assert await limiter.acquire("first", 1)
    second = asyncio.create_task(limiter.acquire("second", 10))
    third = asyncio.create_task(limiter.acquire("third", 10))
    await asyncio.sleep(0)

    limiter.release("first")
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    limiter.release("second")

    assert await third
