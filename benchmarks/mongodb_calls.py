"""What does a call on MongoDB cost the client, beside the bare driver and the predecessor on Motor?

A measurement is the mean of a batch of calls, one after another. The test server is slow, so the
time until the reply depends little on the library: the client's CPU time is measured. Motor runs
PyMongo's sync client in threads; the async API uses the driver's own async client, whose bare
calls are compared with the predecessor, too: they are the lower limit.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any
from uuid import uuid4

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.records import (
    AGENT,
    START,
    conversation_id,
    conversations,
    message_id,
    messages,
)
from benchmarks.frame.results import Row, at_least_as_fast, within
from benchmarks.frame.scenario import Figures, Scenario
from jazzmine.core.message_store import Message, MessageStore

BATCH = 60
STORED = 200
SPREAD = 4
PAGE = 20


class OnMongoDB(Scenario):
    """One kind of call on a database of its own."""

    def __init__(self, folder: Path, uri: str, call: str, at_once: bool = False) -> None:
        super().__init__(folder)
        self._at_once = at_once
        self.uri, self.db = uri, f"jazzmine_bench_{uuid4().hex}"
        self.round = 0
        self._call = call

    async def measure(self) -> Figures:
        call: Callable[[int], Awaitable[object]] = getattr(self, self._call)
        numbers = range(self.round * BATCH, (self.round + 1) * BATCH)
        self.round += 1
        await self.ready(numbers)
        started, cpu = perf_counter(), process_time()
        if self._at_once:
            await asyncio.gather(*(call(number) for number in numbers))
        else:
            for number in numbers:
                await call(number)
        return {
            "cpu": (process_time() - cpu) / BATCH,
            "seconds": (perf_counter() - started) / BATCH,
        }

    async def ready(self, numbers: range) -> None:
        self.new = {n: messages(STORED + n, STORED + n + 1, SPREAD)[0] for n in numbers}


def trace(message: Message, number: int) -> Any:
    """The trace of a message, as short as they are."""
    library = importlib.import_module("jazzmine.core.message_store")
    kind = getattr(library, "TurnTrace", None) or library.models.TurnTrace  # the predecessor's
    return kind(
        id=f"trace-{number}",
        message_id=message.id,
        conversation_id=message.conversation_id,
        user_id=message.user_id,
        agent_id=AGENT,
        turn_number=number,
        started_at_ms=START + number,
        ended_at_ms=START + number + 900,
        total_latency_ms=900,
    )


class Stored(OnMongoDB):
    """The calls of a store, ours or the predecessor's."""

    store: Any

    async def prepare(self) -> None:
        config = {"storage": "mongodb", "uri": self.uri, "db": self.db}
        self.store = await MessageStore.initialize(config)
        for conversation in conversations(SPREAD):
            await self.store.store_conversation(conversation)
        await self.store.store_messages(messages(0, STORED, SPREAD))

    async def finish(self) -> None:
        await self.store.close()

    async def ready(self, numbers: range) -> None:
        await super().ready(numbers)
        if self._call == "store_turn_trace":
            # A turn's message is stored just before its trace, by the same store.
            await self.store.store_messages(list(self.new.values()))

    async def store_message(self, number: int) -> None:
        await self.store.store_message(self.new[number])

    async def store_turn_trace(self, number: int) -> None:
        await self.store.store_turn_trace(trace(self.new[number], number))

    async def get_message_by_id(self, number: int) -> None:
        await self.store.get_message_by_id(message_id(number % STORED))

    async def get_immediate_context(self, number: int) -> None:
        await self.store.get_immediate_context(conversation_id(number % SPREAD), PAGE)

    async def flag_message(self, number: int) -> None:
        await self.store.flag_message(message_id(number % STORED))


class StoredSync(OnMongoDB):
    """The same calls through the sync API."""

    store: Any

    async def prepare(self) -> None:
        from jazzmine.sync.message_store import MessageStore

        config = {"storage": "mongodb", "uri": self.uri, "db": self.db}
        self.store = MessageStore.initialize(config)
        for conversation in conversations(SPREAD):
            self.store.store_conversation(conversation)
        self.store.store_messages(messages(0, STORED, SPREAD))

    async def finish(self) -> None:
        self.store.close()

    async def store_message(self, number: int) -> None:
        self.store.store_message(self.new[number])

    async def get_message_by_id(self, number: int) -> None:
        self.store.get_message_by_id(message_id(number % STORED))

    async def get_immediate_context(self, number: int) -> None:
        self.store.get_immediate_context(conversation_id(number % SPREAD), PAGE)

    async def flag_message(self, number: int) -> None:
        self.store.flag_message(message_id(number % STORED))


class Bare(OnMongoDB):
    """The same commands by PyMongo alone: documents in, documents out."""

    async def prepare(self) -> None:
        from pymongo import AsyncMongoClient, ReadPreference, WriteConcern
        from pymongo.read_concern import ReadConcern

        self.client: Any = AsyncMongoClient(self.uri, timeoutMS=30_000)
        durable, majority = WriteConcern("majority", j=True), ReadConcern("majority")
        database = self.client.get_database(
            self.db, None, ReadPreference.PRIMARY, durable, majority
        )
        self.messages = database["messages"]
        await self.messages.create_index("id", unique=True)
        await self.messages.create_index([("conversation_id", 1), ("timestamp", 1), ("_id", 1)])
        found = messages(0, STORED, SPREAD)
        await self.messages.insert_many([message.model_dump(mode="json") for message in found])

    async def finish(self) -> None:
        await self.client.close()

    async def ready(self, numbers: range) -> None:
        await super().ready(numbers)
        self.documents = {n: self.new[n].model_dump(mode="json") for n in numbers}

    async def store_message(self, number: int) -> None:
        document = self.documents[number]
        await self.messages.replace_one({"id": {"$eq": document["id"]}}, document, upsert=True)

    async def get_message_by_id(self, number: int) -> None:
        await self.messages.find_one({"id": {"$eq": message_id(number % STORED)}})

    async def get_immediate_context(self, number: int) -> None:
        mine = {"$eq": conversation_id(number % SPREAD)}
        found = self.messages.find({"conversation_id": mine, "is_flagged": {"$ne": True}})
        await found.sort([("timestamp", -1), ("_id", -1)]).limit(PAGE).to_list()

    async def flag_message(self, number: int) -> None:
        wanted = {"id": {"$eq": message_id(number % STORED)}}
        await self.messages.update_one(wanted, {"$set": {"is_flagged": True}})


CALLS = ("store_message", "get_message_by_id", "get_immediate_context", "flag_message")


def answer(lab: Lab) -> Iterator[Row]:
    from tests.servers.mongodb import Server

    with Server() as server:
        for call, at_once in (("store_turn_trace", False), ("store_message", True)):
            options: dict[str, object] = {"uri": server.url, "call": call, "at_once": at_once}
            other = Side(Stored, options, predecessor=True)
            found = lab.race(Side(Stored, options), other, rounds=9)
            label = f"{BATCH} × {call} at once" if at_once else call
            yield Row(f"{label}, CPU", found["cpu"], at_least_as_fast(1))
            yield Row(f"{label}, until the reply", found["seconds"], at_least_as_fast(1))
        for call in CALLS:
            options = {"uri": server.url, "call": call}
            yield from _measured(lab, call, options)


def _measured(lab: Lab, call: str, options: dict[str, object]) -> Iterator[Row]:
    other = Side(Stored, options, predecessor=True)
    found = lab.race(Side(Stored, options), other, rounds=9)
    yield Row(f"{call}, CPU", found["cpu"], at_least_as_fast(1))
    yield Row(f"{call}, until the reply", found["seconds"])
    if lab.self_check:
        return
    found = lab.race(Side(StoredSync, options), other, rounds=9)
    yield Row(f"{call}, CPU, sync API", found["cpu"], at_least_as_fast(1))
    found = lab.race(Side(Stored, options), Side(Bare, options), rounds=9)
    yield Row(f"{call}, CPU", found["cpu"], within(1.5), beside="bare PyMongo")
    found = lab.race(Side(Bare, options), other, rounds=9)
    yield Row(f"{call}, CPU of bare PyMongo", found["cpu"], as_speed=True)
