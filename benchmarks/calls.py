"""What does a call of a message store cost on each back end, beside the bare driver?

A measurement is the median of a batch of calls, of the async and of the sync API, at 1,000 stored
messages. The bare side writes as much by one statement or one replacement of the file, as durably.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.records import conversation_id, conversations, messages, trace
from benchmarks.frame.results import Row
from benchmarks.frame.scenario import Figures, Scenario
from jazzmine.core.message_store import Message, MessageStore
from jazzmine.sync.message_store import MessageStore as SyncMessageStore
from tests.servers import mongodb, postgres

STORED, CONVERSATIONS, BATCH, ROUNDS = 1_000, 5, 20, 15
CALLS = (
    "store_message",
    "append_messages",
    "store_turn",
    "get_message_by_id",
    "get_immediate_context",
)


class Calls(Scenario):
    """Calls of a method to a store with some messages.

    Args:
        config: the configuration; a `path` in it is a file name in the scenario's folder.
        call: the method.
    """

    def __init__(self, folder: Path, config: dict[str, Any], call: str) -> None:
        super().__init__(folder)
        if "path" in config:
            config = {**config, "path": str(folder / config["path"])}
        self._config, self._call = config, call
        self._next = STORED

    async def prepare(self) -> None:
        async with await MessageStore.initialize(self._config) as store:
            for conversation in conversations(CONVERSATIONS):
                await store.store_conversation(conversation)
            await store.store_messages(messages(0, STORED, CONVERSATIONS))
        self.store: Any = await MessageStore.initialize(self._config)

    async def measure(self) -> Figures:
        times = []
        for new in self.new():
            started = perf_counter()
            await self.make(new)
            times.append(perf_counter() - started)
        return {"seconds": statistics.median(times)}

    def new(self) -> list[Message]:
        self._next += BATCH
        return messages(self._next - BATCH, self._next, CONVERSATIONS)

    def make(self, new: Message) -> Any:
        number = self._next % STORED
        if self._call == "store_message":
            return self.store.store_message(new)
        if self._call == "append_messages":
            return self.store.append_messages(new.conversation_id, [new])
        if self._call == "store_turn":
            of_new = {"message_id": new.id, "conversation_id": new.conversation_id, "id": new.id}
            turn = trace(number, CONVERSATIONS).model_copy(update=of_new)
            return self.store.store_turn(messages=[new], trace=turn)
        if self._call == "get_message_by_id":
            return self.store.get_message_by_id(new.id)
        return self.store.get_immediate_context(conversation_id(number % CONVERSATIONS), 20)

    async def finish(self) -> None:
        await self.store.close()


class SyncCalls(Calls):
    """The same calls to a store of the sync API."""

    async def prepare(self) -> None:
        await super().prepare()
        await self.store.close()
        self.store = SyncMessageStore.initialize(self._config)

    async def measure(self) -> Figures:
        times = []
        for new in self.new():
            started = perf_counter()
            self.make(new)
            times.append(perf_counter() - started)
        return {"seconds": statistics.median(times)}

    async def finish(self) -> None:
        self.store.close()


class Bare(Calls):
    """Writes each message by the driver alone; `prepare` has made the tables with the store."""

    async def prepare(self) -> None:
        await super().prepare()
        self._write = await WRITERS[self._config["storage"]](self._config, self.folder)

    async def measure(self) -> Figures:
        times = []
        for new in self.new():
            started = perf_counter()
            await self._write(new)
            times.append(perf_counter() - started)
        return {"seconds": statistics.median(times)}


Write = Callable[[Message], Awaitable[Any]]


async def _to_postgres(config: dict[str, Any], folder: Path) -> Write:
    import psycopg

    connection = await psycopg.AsyncConnection.connect(config["dsn"], autocommit=True)
    await connection.execute(
        b"CREATE TABLE IF NOT EXISTS bare (id text PRIMARY KEY, owner text, at bigint, data jsonb)"
    )
    statement = (
        b"INSERT INTO bare VALUES (%s, %s, %s, %s)"
        b" ON CONFLICT (id) DO UPDATE SET data = excluded.data"
    )

    async def write(new: Message) -> None:
        row = (new.id, new.conversation_id, new.timestamp, new.model_dump_json())
        await connection.execute(statement, row)

    return write


async def _to_sqlite(config: dict[str, Any], folder: Path) -> Write:
    import sqlite3

    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE bare (id TEXT PRIMARY KEY, owner TEXT, at INTEGER, data TEXT)")

    async def write(new: Message) -> None:
        row = (new.id, new.conversation_id, new.timestamp, new.model_dump_json())
        connection.execute("INSERT OR REPLACE INTO bare VALUES (?, ?, ?, ?)", row)

    return write


async def _to_mongodb(config: dict[str, Any], folder: Path) -> Write:
    from pymongo import MongoClient, WriteConcern

    client: Any = MongoClient(config["uri"])
    durable = WriteConcern("majority", j=True)
    bare = client[config["db"]].get_collection("bare", write_concern=durable)

    async def write(new: Message) -> None:
        bare.replace_one({"_id": new.id}, new.model_dump(mode="json"), upsert=True)

    return write


async def _to_json(config: dict[str, Any], folder: Path) -> Write:
    content = Path(config["path"]).read_bytes()

    async def write(new: Message) -> None:
        with (folder / "bare.tmp").open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(folder / "bare.tmp", folder / "bare.json")
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    return write


WRITERS = {
    "json": _to_json,
    "sqlite": _to_sqlite,
    "postgres": _to_postgres,
    "mongodb": _to_mongodb,
}


@contextmanager
def places(storage: str) -> Iterator[dict[str, object]]:
    """The configuration of an empty place of a back end."""
    if storage == "mongodb":
        with mongodb.emptied_database() as config:
            yield config
    elif storage == "postgres":
        with postgres.empty_schema() as schema:
            yield {"storage": storage, "dsn": postgres.dsn(), "schema": schema}
    else:
        yield {"storage": storage, "path": f"messages.{storage}"}


def answer(lab: Lab) -> Iterator[Row]:
    for storage in WRITERS:
        for call in CALLS:
            with places(storage) as config, places(storage) as other:
                options = {"config": config, "call": call}
                bare = Side(Bare, {"config": other, "call": call})
                found = lab.race(Side(Calls, options), bare, rounds=ROUNDS)
            yield Row(f"{storage}: {call}", found["seconds"], beside="bare write")
            with places(storage) as config, places(storage) as other:
                sync = Side(SyncCalls, {"config": config, "call": call})
                found = lab.race(sync, Side(Calls, {"config": other, "call": call}), rounds=ROUNDS)
            yield Row(f"  {call}, sync API", found["seconds"], beside="async API")
