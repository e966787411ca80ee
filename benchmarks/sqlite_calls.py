"""What does a call cost on SQLite, beside OpenAI Agents' SQLiteSession, and in a large store?

Both write to a database in WAL mode and flush it once for each call (`synchronous` is "full"
here, and SQLite's default there), so that a call that returned survives a power cut on both sides.
What they promise differs. Ours checks each record, finds messages by id, conversation and user,
refuses one without its conversation, shares a flush among calls that arrive at once, and lets
processes fork. A session stores items of any form, with one index.

A session passes each call to another thread, and so does a write of ours in both APIs: the event
loop must not wait for the disk, and no signal handler may interrupt a commit. The sync API has rows
of its own.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.records import conversation_id, conversations, messages, trace
from benchmarks.frame.results import Bar, Row, at_least_as_fast, within
from benchmarks.frame.scenario import Figures, Scenario
from jazzmine.core.message_store import Message, MessageStore, TurnTrace
from jazzmine.sync.message_store import MessageStore as SyncMessageStore

CALLS = 50
IN_A_CONVERSATION = 200
SMALL, LARGE = 1_000, 1_000_000
AT_ONCE = 50
BURSTS = 10
BATCH = 5_000

# So many calls fill the -wal file once: until then each flush also makes the file longer.
WARM_UP = 400


async def median(call: Callable[[int], Awaitable[Any]], count: int = CALLS) -> Figures:
    times = []
    for number in range(count):
        started = perf_counter()
        await call(number)
        times.append(perf_counter() - started)
    return {"seconds": statistics.median(times)}


def sync_median(call: Callable[[int], object]) -> Figures:
    times = []
    for number in range(CALLS):
        started = perf_counter()
        call(number)
        times.append(perf_counter() - started)
    return {"seconds": statistics.median(times)}


class Ours(Scenario):
    """A store with `stored` messages, 200 in each conversation."""

    def __init__(self, folder: Path, stored: int, filled: str = "") -> None:
        super().__init__(folder)
        self._stored = stored
        self._filled = filled
        self._count = max(1, stored // IN_A_CONVERSATION)
        self._next = stored

    async def prepare(self) -> None:
        path = self.folder / "messages.db"
        if self._filled:
            shutil.copyfile(self._filled, path)
            # Else the disk would be busy with the copy while the calls wait for it.
            os.sync()
        else:
            await fill(path, self._stored)
        await self.open(f"sqlite:{path}")

    async def open(self, url: str) -> None:
        """Open the store, and call it until its calls take as long as they will."""
        self.store = await MessageStore.initialize(url)
        for message in self.new(WARM_UP):
            await self.store.store_message(message)

    def new(self, count: int) -> list[Message]:
        """New messages, of all conversations."""
        self._next += count
        return messages(self._next - count, self._next, self._count)

    async def finish(self) -> None:
        await self.store.close()


async def fill(path: Path, stored: int) -> None:
    count = max(1, stored // IN_A_CONVERSATION)
    config = {"storage": "sqlite", "path": str(path), "synchronous": "normal"}
    async with await MessageStore.initialize(config) as store:
        for conversation in conversations(count):
            await store.store_conversation(conversation)
        for start in range(0, stored, BATCH):
            await store.store_messages(messages(start, min(stored, start + BATCH), count))


class Store(Ours):
    """`store_message` of a new message."""

    async def measure(self) -> Figures:
        new = self.new(CALLS)
        return await median(lambda number: self.store.store_message(new[number]))


class Append(Ours):
    """`append_messages` of one message, to one conversation after another."""

    async def measure(self) -> Figures:
        new = self.new(CALLS)

        def append(number: int) -> Awaitable[Any]:
            return self.store.append_messages(new[number].conversation_id, [new[number]])

        return await median(append)


class Newest(Ours):
    """`get_immediate_context` of twenty, from one conversation after another."""

    async def measure(self) -> Figures:
        ids = [conversation_id(number * 7919 % self._count) for number in range(4 * CALLS)]
        return await median(lambda n: self.store.get_immediate_context(ids[n], 20), len(ids))


class Turn(Ours):
    """`store_turn` of two messages and a trace."""

    async def measure(self) -> Figures:
        turns = self.turns()

        def turn(number: int) -> Awaitable[None]:
            pair, one = turns[number]
            return self.store.store_turn(messages=pair, trace=one)

        return await median(turn)

    def turns(self) -> list[tuple[list[Message], TurnTrace]]:
        """New turns: a question and its reply, with the trace of the reply."""
        # The messages of a conversation follow each other at the distance of their number.
        first, count = self._next, self._count
        new = self.new(-(-CALLS // count) * 2 * count)
        questions = [n for n in range(len(new)) if n // count % 2 == 0]
        return [([new[n], new[n + count]], trace(first + n + count, count)) for n in questions]


class Sync(Turn):
    """`store_message`, `append_messages` of one or `store_turn` of the sync API."""

    def __init__(self, folder: Path, stored: int, call: str) -> None:
        super().__init__(folder, stored)
        self._call = call

    async def open(self, url: str) -> None:
        self.sync = SyncMessageStore.initialize(url)
        for message in self.new(WARM_UP):
            self.sync.store_message(message)

    async def measure(self) -> Figures:
        calls = {"store": self._store, "append": self._append, "turn": self._turn}
        return calls[self._call]()

    def _store(self) -> Figures:
        new = self.new(CALLS)
        return sync_median(lambda number: self.sync.store_message(new[number]))

    def _append(self) -> Figures:
        new = self.new(CALLS)
        return sync_median(
            lambda number: self.sync.append_messages(new[number].conversation_id, [new[number]])
        )

    def _turn(self) -> Figures:
        turns = self.turns()
        return sync_median(
            lambda number: self.sync.store_turn(messages=turns[number][0], trace=turns[number][1])
        )

    async def finish(self) -> None:
        self.sync.close()


class AtOnce(Ours):
    """Fifty `store_message` at once, several times: until the last of them has returned."""

    async def measure(self) -> Figures:
        new = self.new(AT_ONCE * BURSTS)

        def burst(number: int) -> Awaitable[Any]:
            some = new[number * AT_ONCE : (number + 1) * AT_ONCE]
            return asyncio.gather(*map(self.store.store_message, some))

        return await median(burst, BURSTS)


class Session(Scenario):
    """`add_items` of so many items to a session of OpenAI Agents."""

    def __init__(self, folder: Path, items: int = 1) -> None:
        super().__init__(folder)
        self._items = items
        self._next = 0

    async def prepare(self) -> None:
        from agents import SQLiteSession

        self.session = SQLiteSession("c1", self.folder / "session.db")
        for _ in range(WARM_UP):
            await self.session.add_items(self.new(1))

    def new(self, count: int) -> list[Any]:
        """New items: role and content of the messages that ours stores."""
        self._next += count
        return [
            {"role": one.role.value, "content": one.original_content + one.enhanced_message}
            for one in messages(self._next - count, self._next, 1)
        ]

    async def measure(self) -> Figures:
        new = [self.new(self._items) for _ in range(CALLS)]
        return await median(lambda number: self.session.add_items(new[number]))


class NewestItems(Session):
    """The newest twenty of 200 items."""

    async def prepare(self) -> None:
        from agents import SQLiteSession

        self.session = SQLiteSession("c1", self.folder / "session.db")
        await self.session.add_items(self.new(IN_A_CONVERSATION))

    async def measure(self) -> Figures:
        return await median(lambda _: self.session.get_items(20), 4 * CALLS)


AGENTS = "OpenAI Agents' SQLiteSession"


def answer(lab: Lab) -> Iterator[Row]:
    if lab.self_check:
        return
    one, two = {"stored": SMALL}, {"items": 2}
    for label, ours, other, bar in (
        ("store_message", Side(Store, one), Side(Session), at_least_as_fast(1.2)),
        ("append_messages of one", Side(Append, one), Side(Session), at_least_as_fast(1.2)),
        ("newest 20 of 200", Side(Newest, one), Side(NewestItems), at_least_as_fast(1.5)),
        ("store_turn of two with trace", Side(Turn, one), Side(Session, two), _AS_FAST),
        ("store_message, sync API", Side(Sync, _sync("store")), Side(Session), None),
        ("append_messages of one, sync API", Side(Sync, _sync("append")), Side(Session), None),
        ("store_turn, sync API", Side(Sync, _sync("turn")), Side(Session, two), None),
    ):
        found = lab.race(ours, other, rounds=15)
        yield Row(label, found["seconds"], bar, beside=AGENTS, as_speed=True)
    found = lab.race(Side(AtOnce, one), Side(Store, one), rounds=15)
    yield Row(f"{AT_ONCE} at once", found["seconds"], within(5), beside="one store_message")
    large = {"stored": LARGE, "filled": str(lab.keep("large", _make_large) / "messages.db")}
    for label, scenario in (("store_message", Store), ("newest 20 of 200", Newest)):
        found = lab.race(Side(scenario, large), Side(scenario, one), rounds=15)
        beside = f"itself at {SMALL:,}"
        yield Row(f"{label} at {LARGE:,}", found["seconds"], within(1.3), beside=beside)


_AS_FAST: Bar = at_least_as_fast(1)


def _sync(call: str) -> dict[str, object]:
    return {"stored": SMALL, "call": call}


def _make_large(folder: Path) -> Path:
    asyncio.run(fill(folder / "messages.db", LARGE))
    return folder
