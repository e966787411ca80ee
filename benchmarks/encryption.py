"""What does encryption cost: a write, the newest 20, a turn's begin, and another key for 100,000?

Each side is this library, with keys and without. A message has 140 characters of text and two keys
of metadata. Files are flushed as by default.
"""

from __future__ import annotations

import statistics
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.results import Pairs, Row, within
from benchmarks.frame.scenario import Figures, Scenario
from benchmarks.frame.turns import turn_cache
from jazzmine.core import Conversation, Message, MessageRole, MessageStore, WorkingMemoryStore

STORED, CALLS = 100_000, 300
OLD = f"k1:{b64encode(bytes(range(32))).decode()}"
NEW = f"k2:{b64encode(bytes(range(32, 64))).decode()}"
TEXT = (
    "What was said the other day about the train to Lisbon, and whether it has a dining car. " * 2
)


def message(number: int) -> Message:
    """A message of the conversation."""
    return Message(
        id=f"m{number}",
        conversation_id="c1",
        user_id="u1",
        role=MessageRole.USER,
        original_content=TEXT[:140],
        timestamp=number,
        metadata={"channel": "web", "tokens": number},
    )


async def median(call: Callable[[int], Awaitable[Any]]) -> float:
    """Return how long a call takes."""
    times = []
    for number in range(CALLS):
        started = perf_counter()
        await call(number)
        times.append(perf_counter() - started)
    return statistics.median(times)


class Calls(Scenario):
    """The calls of a turn, on one place."""

    def __init__(self, folder: Path, config: dict[str, Any], encryption: str | None) -> None:
        super().__init__(folder)
        self._config = {**config, "encryption": encryption}
        if config["storage"] == "sqlite":
            self._config["path"] = str(folder / "agent.db")
        elif encryption:
            self._config["schema"] = "jazzmine_bench_sealed"
        self._next = 0

    async def prepare(self) -> None:
        self.store = await MessageStore.initialize(self._config)
        self.memory = await WorkingMemoryStore.initialize(self._config)
        await self.store.store_conversation(Conversation(id="c1", user_id="u1", agent_id="a1"))
        await self.store.store_messages(list(map(message, range(1_000))))
        await self.memory.get_or_create("c1", "u1", "a1")
        self._next = 1_000

    async def measure(self) -> Figures:
        first, self._next = self._next, self._next + CALLS
        new = [message(first + number) for number in range(CALLS)]
        return {
            "store_message": await median(lambda number: self.store.store_message(new[number])),
            "newest 20": await median(lambda _: self.store.get_immediate_context("c1", 20)),
            "begin_turn": await median(
                lambda number: self.memory.begin_turn("c1", turn_cache(first + number))
            ),
        }

    async def finish(self) -> None:
        await self.store.close()
        await self.memory.close()


async def rekeyed(config: dict[str, Any]) -> float:
    """Store messages, seal them with another key, and return how long that took, in s."""
    async with await MessageStore.initialize({**config, "encryption": OLD}) as store:
        await store.store_conversation(Conversation(id="c1", user_id="u1", agent_id="a1"))
        for first in range(0, STORED, 5_000):
            await store.store_messages(list(map(message, range(first, first + 5_000))))
    async with await MessageStore.initialize({**config, "encryption": f"{NEW},{OLD}"}) as store:
        started = perf_counter()
        backend: Any = store.backend
        async for found in backend.iter_keys(reseals=True):
            assert not found.refused
        return perf_counter() - started


def answer(lab: Lab) -> Iterator[Row]:
    if lab.self_check:
        return
    import asyncio

    from tests.servers.postgres import Server

    with Server("18", fsync=True) as server:
        places: dict[str, dict[str, Any]] = {
            "SQLite": {"storage": "sqlite"},
            "PostgreSQL": {"storage": "postgres", "dsn": server.dsn, "schema": "jazzmine_bench"},
        }
        for name, config in places.items():
            ours = Side(Calls, {"config": config, "encryption": OLD})
            other = Side(Calls, {"config": config, "encryption": None})
            for label, pairs in lab.race(ours, other, rounds=9).items():
                yield Row(f"{name}: {label}", pairs, within(1.3), beside="without keys")
        places["SQLite"]["path"] = str(lab.folder() / "agent.db")
        places["PostgreSQL"]["schema"] = "jazzmine_bench_rekey"
        for name, config in places.items():
            seconds = asyncio.run(rekeyed(config))
            yield Row(f"{name}: another key for {STORED:,} messages", Pairs([seconds], []))
