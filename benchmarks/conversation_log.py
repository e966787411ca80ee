"""What does an append cost beside `store_message`, and does erasing a user slow others down?

Appended and stored messages are new ones. Then eight processes append to one conversation, and one
process appends as many alone, half of them before and half after, because a write of the JSON file
takes as long as the file is; fifty tasks append to as many conversations, beside fifty that store;
and the calls of another user are timed beside the erasure of one with 1,000,000 messages. The JSON
file, SQLite and PostgreSQL sync every write to the disk. The test server for MongoDB does not, and
takes about as long for every command: there the calls cost as many times more as they send
more commands. It erases 20,000 messages.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.postgres import database, median
from benchmarks.frame.results import Bar, Pairs, Row, at_least_as_fast, exactly, within
from benchmarks.frame.scenario import Figures, Scenario
from jazzmine.core.message_store import Conversation, Message, MessageRole, MessageStore
from tests.servers import mongodb

PROCESSES = 8
EACH = 100
TASKS = 50
ERASED = 1_000_000
ERASED_FROM_TEST_SERVER = 20_000
WINDOW = 20

TEXT = "Where is my order? It has not arrived yet, and the tracking number shows nothing. " * 4


def said(conversation_id: str, user_id: str = "user") -> Message:
    return Message(
        conversation_id=conversation_id,
        user_id=user_id,
        role=MessageRole.USER,
        original_content=TEXT,
    )


class Log(Scenario):
    """One process with a store, and a conversation that all processes share."""

    def __init__(self, folder: Path, url: str, call: str = "", batch: int = 20) -> None:
        super().__init__(folder)
        self._url, self._name, self._batch = url, call, batch
        self._count = itertools.count()

    async def prepare(self) -> None:
        self._store = await MessageStore.initialize(self._url)
        for one in ("shared", *(f"c{n}" for n in range(TASKS))):
            await self._store.get_or_create_conversation(
                Conversation(id=one, user_id="user", agent_id="agent")
            )
        if not await self._store.get_immediate_context("c0", 1):
            await self._store.append_messages("c0", [said("c0") for _ in range(1_000)])

    async def measure(self) -> Figures:
        call = getattr(self, f"_{self._name}")
        return {"seconds": await median(call, self._count, self._batch)}

    async def _store_message(self, n: int) -> None:
        await self._store.store_message(said("shared"))

    async def _append_messages(self, n: int) -> None:
        await self._store.append_messages("shared", [said("shared")])

    async def _get_immediate_context(self, n: int) -> None:
        assert len(await self._store.get_immediate_context("c0", WINDOW)) == WINDOW

    async def _get_context_window(self, n: int) -> None:
        found = await self._store.get_context_window(
            "c0", max_tokens=WINDOW, count_tokens=lambda message: 1
        )
        assert len(found) == WINDOW

    async def _many_store(self, n: int) -> None:
        await asyncio.gather(*(self._store.store_message(said(f"c{n}")) for n in range(TASKS)))

    async def _many_append(self, n: int) -> None:
        await asyncio.gather(
            *(self._store.append_messages(f"c{n}", [said(f"c{n}")]) for n in range(TASKS))
        )

    async def append(self, count: int) -> float:
        """Append messages one by one to the shared conversation; the seconds that took."""
        started = perf_counter()
        for _ in range(count):
            await self._store.append_messages("shared", [said("shared")])
        return perf_counter() - started

    async def stored(self) -> int:
        found = await self._store.get_messages_by_conversation_id("shared")
        assert found == sorted(found, key=lambda message: message.timestamp)
        return len(found)

    async def fill(self, count: int) -> None:
        """Store a conversation of a user with so many messages."""
        await self._store.store_conversation(
            Conversation(id="doomed", user_id="doomed", agent_id="agent")
        )
        for _ in range(count // 5_000):
            await self._store.store_messages([said("doomed", "doomed") for _ in range(5_000)])

    async def erase(self) -> list[float]:
        """Erase the user; the seconds that took, and the number of messages."""
        started = perf_counter()
        erased = await self._store.erase_user("doomed")
        return [perf_counter() - started, erased.messages]

    async def times(self, seconds: float) -> float:
        """Append and read for some time; the 99th percentile of the calls, in s."""
        times, until = [], perf_counter() + seconds
        while perf_counter() < until:
            for call in (self._append_messages, self._get_immediate_context):
                started = perf_counter()
                await call(0)
                times.append(perf_counter() - started)
        return statistics.quantiles(times, n=100)[-1]

    async def finish(self) -> None:
        await self._store.close()


def answer(lab: Lab) -> Iterator[Row]:
    if lab.self_check:
        return
    yield from _rows(lab, "JSON", f"json:{lab.folder() / 'messages.json'}")
    sqlite = f"sqlite:{lab.folder() / 'messages.db'}"
    yield from _rows(lab, "SQLite", sqlite)
    yield from _erasure(lab, "SQLite", sqlite, ERASED, within(3))
    with mongodb.Server() as server:
        yield from _rows(lab, "MongoDB", f"{server.url}/bench", by_commands=True)
        yield from _erasure(lab, "MongoDB", f"{server.url}/bench", ERASED_FROM_TEST_SERVER, None)
    with database(fsync=True) as dsn:
        yield from _rows(lab, "PostgreSQL", dsn)
        yield from _erasure(lab, "PostgreSQL", dsn, ERASED, within(3))


RACES = (
    ("append_messages of one", "append_messages", "store_message", within(1.5)),
    ("get_context_window", "get_context_window", "get_immediate_context", within(1.5)),
    (f"{TASKS} appends at once", "many_append", "many_store", None),
)


def _rows(lab: Lab, name: str, url: str, *, by_commands: bool = False) -> Iterator[Row]:
    for label, ours, other, bar in RACES:
        bar = None if by_commands else bar
        batch = 3 if ours.startswith("many") else 20
        sides = [Side(Log, {"url": url, "call": call, "batch": batch}) for call in (ours, other)]
        found = lab.race(*sides, rounds=9)
        yield Row(f"{name}: {label}", found["seconds"], bar, beside=other)
    with ExitStack() as stack:
        side = Side(Log, {"url": url})
        workers = [stack.enter_context(lab.worker(side)) for _ in range(PROCESSES)]
        before = workers[0].call("stored")
        total = PROCESSES * EACH
        for worker in workers:
            worker.call("append", count=5)  # so that each has its connections and statements
        alone = workers[0].call("append", count=total // 2)
        started = perf_counter()
        for worker in workers:
            worker.send("append", count=EACH)
        for worker in workers:
            worker.receive()
        wall = perf_counter() - started
        alone += workers[0].call("append", count=total // 2)
        stored = workers[0].call("stored") - before - 5 * PROCESSES
    label = f"{name}: {total} appends to one conversation, {PROCESSES} processes"
    bar = None if by_commands else at_least_as_fast(1)
    yield Row(label, Pairs([wall], [alone]), bar, beside="1 process")
    yield Row("  of that, stored in order", Pairs([stored], []), exactly(2 * total), unit="")


def _erasure(lab: Lab, name: str, url: str, count: int, bar: Bar | None) -> Iterator[Row]:
    side = Side(Log, {"url": url})
    with lab.worker(side) as other, lab.worker(side) as eraser:
        eraser.call("fill", count=count)
        idle = other.call("times", seconds=5.0)
        eraser.send("erase")
        beside = other.call("times", seconds=5.0)
        seconds, messages = eraser.receive()
    label = f"{name}: p99 of calls beside the erasure of {count:,} messages"
    yield Row(label, Pairs([beside], [idle]), bar, beside="idle")
    yield Row("  the erasure, which found all", Pairs([seconds], []), None)
    assert messages == count
