"""What does a call of a message store cost on each back end, beside the bare driver?

A measurement is the median of a batch of calls, of the async and of the sync API, at 1,000 stored
messages. The bare side writes as much by one statement or one replacement of the file, as durably.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from pymongo import MongoClient, WriteConcern

from benchmarks.frame.lab import Lab, median_time, median_wait, race
from benchmarks.frame.records import conversation_id, conversations, messages, trace
from benchmarks.frame.results import Row
from jazzmine.core.message_store import MessageStore
from jazzmine.sync.message_store import Message
from jazzmine.sync.message_store import MessageStore as SyncMessageStore
from tests.servers import mongodb, postgres

STORED, CONVERSATIONS, BATCH, ROUNDS = 1_000, 5, 20, 15


def _turn(store: Any, new: Message) -> Any:
    of_new = {"message_id": new.id, "conversation_id": new.conversation_id, "id": new.id}
    turn = trace(0, CONVERSATIONS).model_copy(update=of_new)
    return store.store_turn(messages=[new], trace=turn)


CALLS: dict[str, Callable[[Any, Message], Any]] = {
    "store_message": lambda store, new: store.store_message(new),
    "append_messages": lambda store, new: store.append_messages(new.conversation_id, [new]),
    "store_turn": _turn,
    "get_message_by_id": lambda store, new: store.get_message_by_id(new.id),
    "get_immediate_context": lambda store, new: store.get_immediate_context(conversation_id(0), 20),
}
Config = dict[str, Any]


def batches() -> Iterator[list[Message]]:
    """Yield new messages without an end."""
    first = STORED
    while True:
        yield messages(first, first + BATCH, CONVERSATIONS)
        first += BATCH


@contextmanager
def filled(storage: str, folder: Path) -> Iterator[Config]:
    """The configuration of a store with some messages."""
    with ExitStack() as stack:
        config: Config = {"storage": storage, "path": str(folder / f"messages.{storage}")}
        if storage == "mongodb":
            config = stack.enter_context(mongodb.emptied_database())
        elif storage == "postgres":
            schema = stack.enter_context(postgres.empty_schema())
            config = {"storage": storage, "dsn": postgres.dsn(), "schema": schema}
        with SyncMessageStore.initialize(config) as store:
            for conversation in conversations(CONVERSATIONS):
                store.store_conversation(conversation)
            store.store_messages(messages(0, STORED, CONVERSATIONS))
        yield config


Write = Callable[[Message], Any]


@contextmanager
def _to_postgres(config: Config, folder: Path) -> Iterator[Write]:
    with psycopg.connect(config["dsn"], autocommit=True) as connection:
        columns = b"id text PRIMARY KEY, owner text, at bigint, data jsonb"
        connection.execute(b"CREATE TABLE IF NOT EXISTS bare (" + columns + b")")
        insert = b"INSERT INTO bare VALUES (%s, %s, %s, %s)"
        insert += b" ON CONFLICT (id) DO UPDATE SET data = excluded.data"
        yield lambda new: connection.execute(insert, _row(new))


@contextmanager
def _to_sqlite(config: Config, folder: Path) -> Iterator[Write]:
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE bare (id TEXT PRIMARY KEY, owner TEXT, at INTEGER, data TEXT)")
    insert = "INSERT OR REPLACE INTO bare VALUES (?, ?, ?, ?)"
    yield lambda new: connection.execute(insert, _row(new))
    connection.close()


@contextmanager
def _to_mongodb(config: Config, folder: Path) -> Iterator[Write]:
    with MongoClient[Any](config["uri"]) as client:
        durable = WriteConcern("majority", j=True)
        bare = client[config["db"]].get_collection("bare", write_concern=durable)
        yield lambda new: bare.replace_one({"_id": new.id}, new.model_dump(mode="json"), True)


@contextmanager
def _to_json(config: Config, folder: Path) -> Iterator[Write]:
    content = Path(config["path"]).read_bytes()

    def write(new: Message) -> None:
        with (folder / "bare.tmp").open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(folder / "bare.tmp", folder / "bare.json")
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    yield write


def _row(new: Message) -> tuple[object, ...]:
    return (new.id, new.conversation_id, new.timestamp, new.model_dump_json())


WRITERS = {
    "json": _to_json,
    "sqlite": _to_sqlite,
    "postgres": _to_postgres,
    "mongodb": _to_mongodb,
}


def answer(lab: Lab) -> Iterator[Row]:
    for storage in WRITERS:
        for name in CALLS:
            yield from _rows(storage, name, lab.folder())


def _rows(storage: str, name: str, folder: Path) -> Iterator[Row]:
    call, new, loop = CALLS[name], batches(), asyncio.new_event_loop()
    with (
        filled(storage, folder) as config,
        WRITERS[storage](config, folder) as write,
        SyncMessageStore.initialize(config) as sync_store,
    ):
        store = loop.run_until_complete(MessageStore.initialize(config))

        def by_async() -> float:
            waits = median_wait([partial(call, store, each) for each in next(new)])
            return loop.run_until_complete(waits)

        def by_sync() -> float:
            return median_time([partial(call, sync_store, each) for each in next(new)])

        def bare() -> float:
            return median_time([partial(write, each) for each in next(new)])

        yield Row(f"{storage}: {name}", race(by_async, bare, ROUNDS), beside="bare write")
        yield Row("  sync API", race(by_sync, by_async, ROUNDS), beside="async API")
        loop.run_until_complete(store.close())
    loop.close()
