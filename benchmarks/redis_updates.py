"""What does an update of working memory in Redis cost, alone, in a block, and many at once?

Both libraries use one server in turn, which is started for the benchmark. A round of updates is a
conversation of a dozen turns, each with every update there is; the figure is the median call. The
predecessor has neither a sync API nor a block, so its five calls stand beside ours.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import redis.asyncio

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.results import Row, Series, at_least_as_fast
from benchmarks.frame.scenario import Figures, Scenario
from benchmarks.frame.turns import tool_call, turn, turn_cache
from jazzmine.core.working_memory import RedisWorkingMemoryStore
from tests.servers.redis import Server

TURNS = 12
CONTENDERS = 10
CONVERSATIONS = 50
TIMES = 20


class OnRedis(Scenario):
    """A store on the benchmark's server."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self._url = url
        self._begun = 0

    async def prepare(self) -> None:
        """Open the store as documented: by URL, or with a client."""
        self.client = redis.asyncio.Redis.from_url(self._url)
        if hasattr(RedisWorkingMemoryStore, "initialize"):
            self.store: Any = await RedisWorkingMemoryStore.initialize(self._url)
        else:
            self.store = RedisWorkingMemoryStore(self.client)

    async def next_conversation(self) -> str:
        """Begin a conversation, after collecting the garbage of the last one."""
        self._begun += 1
        cid = f"conversation {id(self)} {self._begun}"
        await self.store.get_or_create(cid, "user", "agent")
        await self.store.begin_turn(cid, turn_cache(1))
        gc.collect()
        return cid

    async def finish(self) -> None:
        if hasattr(self.store, "close"):
            await self.store.close()
        await self.client.aclose()


class Updates(OnRedis):
    """A conversation, update by update, and its reads."""

    async def measure(self) -> Figures:
        cid = await self.next_conversation()
        times: dict[str, list[float]] = defaultdict(list)
        for number in range(1, TURNS + 1):
            for name, arguments in [*turn(number), ("get", ())]:
                method = getattr(self.store, name)
                started = perf_counter()
                await method(cid, *arguments)
                times[name].append(perf_counter() - started)
        return {name: statistics.median(found) for name, found in times.items()}


class UpdatesSync(OnRedis):
    """The same through the sync API."""

    async def prepare(self) -> None:
        """Open nothing for the other API."""

    def measure(self) -> Figures:
        from jazzmine.sync.working_memory import WorkingMemoryStore

        times = defaultdict[str, list[float]](list)
        with WorkingMemoryStore.initialize(self._url) as store:
            self._begun += 1
            cid = f"conversation {id(self)} {self._begun}"
            store.get_or_create(cid, "user", "agent")
            for number in range(1, TURNS + 1):
                for name, arguments in [*turn(number), ("get", ())]:
                    method = getattr(store, name)
                    started = perf_counter()
                    method(cid, *arguments)
                    times[name].append(perf_counter() - started)
        return {name: statistics.median(found) for name, found in times.items()}

    async def finish(self) -> None:
        """Close nothing."""


class RoundTrips(Updates):
    """A bare round trip through redis-py with the bytes of each update: the wire's share."""

    async def measure(self) -> Figures:
        from jazzmine.backends.redis import keys as layout

        cid = await self.next_conversation()
        wire: Any = redis.asyncio.Redis.from_url(self._url, protocol=2, socket_timeout=None)
        keys = layout.keys_of(cid)
        times: dict[str, list[float]] = defaultdict(list)
        for number in range(1, TURNS + 1):
            for name, arguments in turn(number):
                await getattr(self.store, name)(cid, *arguments)
                marks, data = await wire.hmget(keys[0], "marks", "data")
                request = (marks[:16], os.urandom(8).hex(), "", 3_600_000, data, "user", 1)
                operands = (2, *keys, *request)
                started = perf_counter()
                await wire.execute_command(
                    "EVALSHA", layout.WRITE.digest, *operands, NEVER_DECODE=True
                )
                times[name].append(perf_counter() - started)
        await wire.aclose()
        return {name: statistics.median(found) for name, found in times.items()}


class FiveCalls(OnRedis):
    """Five updates of a turn, a call each."""

    async def measure(self) -> Figures:
        cid, store, times = await self.next_conversation(), self.store, []
        for number in range(1, TIMES + 1):
            started = perf_counter()
            await store.begin_turn(cid, turn_cache(number))
            for _ in range(3):
                await store.record_tool_call(cid, tool_call(number))
            await store.end_turn(cid, "Your refund is on its way.", "refund_done")
            times.append(perf_counter() - started)
        return {"turn": statistics.median(times)}


class OneBlock(OnRedis):
    """The same five in one block."""

    async def measure(self) -> Figures:
        cid, store, times = await self.next_conversation(), self.store, []
        for number in range(1, TIMES + 1):
            started = perf_counter()
            async with store.locked(cid) as memory:
                memory.begin_turn(turn_cache(number))
                for _ in range(3):
                    memory.record_tool_call(tool_call(number))
                memory.end_turn("Your refund is on its way.", "refund_done")
            times.append(perf_counter() - started)
        return {"turn": statistics.median(times)}


class Contended(OnRedis):
    """Tasks of one process that update one conversation at once."""

    async def measure(self) -> Figures:
        cid, times = await self.next_conversation(), []
        for _ in range(TIMES // 2):
            started = perf_counter()
            await asyncio.gather(*(self._update(cid) for _ in range(CONTENDERS)))
            times.append(perf_counter() - started)
        return {"seconds": statistics.median(times)}

    async def _update(self, cid: str) -> Any:
        return await self.store.end_turn(cid, "Your refund is on its way.", "refund_done")


class ManyConversations(Contended):
    """Conversations that are updated at once through one client."""

    async def measure(self) -> Figures:
        cids = [await self.next_conversation() for _ in range(CONVERSATIONS)]
        times = []
        for _ in range(TIMES // 2):
            started = perf_counter()
            await asyncio.gather(*(self._update(cid) for cid in cids))
            times.append(perf_counter() - started)
        return {"seconds": statistics.median(times)}


def answer(lab: Lab) -> Iterator[Row]:
    with Server() as server:
        options = {"url": server.url}
        other = Side(Updates, options, predecessor=True)
        yield from _calls(lab.race(Side(Updates, options), other, rounds=9), "")
        if not lab.self_check:
            found = lab.race(Side(RoundTrips, options), other, rounds=5)
            for name in ("begin_turn", "end_turn"):
                label = f"{name}: one bare round trip through redis-py"
                yield Row(label, found[name], as_speed=True)
            yield from _calls(lab.race(Side(UpdatesSync, options), other, rounds=5), ", sync API")
            ours, calls = Side(OneBlock, options), Side(FiveCalls, options, predecessor=True)
            found = lab.race(ours, calls, rounds=9)
            yield Row("a turn in a block", found["turn"], at_least_as_fast(5), "its five calls")
            found = lab.race(ours, Side(FiveCalls, options), rounds=5)
            yield Row("a turn in a block", found["turn"], beside="our five calls")
        for scenario, label, times in (
            (Contended, f"{CONTENDERS} updates of one conversation at once", 15.0),
            (ManyConversations, f"an update of {CONVERSATIONS} conversations at once", 3.0),
        ):
            other = Side(scenario, options, predecessor=True)
            found = lab.race(Side(scenario, options), other, rounds=9)
            yield Row(label, found["seconds"], at_least_as_fast(times))


def _calls(found: Series, api: str) -> Iterator[Row]:
    for name, pairs in found.items():
        bar = {"begin_turn": 2.2, "get": 1.0}.get(name, 2.5)
        yield Row(f"{name}{api}", pairs, at_least_as_fast(bar))
