"""Run by a test: writes, and is killed meanwhile.

    python -m tests.faults.killed_program CONFIG WHAT [ARGUMENT…]

It prints a line when it begins to write and, for "messages", "pairs" and "updates" (of a working
memory), after each write that returned. "add" adds 1 so many times to a number that several
processes share.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from typing import Any

from jazzmine import (
    ConflictError,
    Conversation,
    DeleteItem,
    MemoryItem,
    Message,
    MessageRole,
    PutItem,
)
from jazzmine.backends.json import database as json_store
from jazzmine.core import MessageStore as AsyncMessageStore
from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore

WRITERS = 3
IDS = 8
TEXT = "x" * 20_000
SHARED = ("shared",)


def say(text: object) -> None:
    os.write(1, f"{text}\n".encode())


def write_messages(config: Any, api: str, first: str, broken: str) -> None:
    """Write messages with numbers from `first` on in three threads, or tasks."""
    if broken == "in place":
        vars(json_store)["replace_file"] = write_in_place

    async def write(store: Any, writer: int) -> None:
        for number in range(int(first), sys.maxsize):
            name = f"w{writer}-{number % IDS}"
            if broken == "early":
                say(f"{name} {number}")
            stored = store.store_message(
                Message(
                    id=name,
                    conversation_id="c1",
                    user_id="u1",
                    role=MessageRole.USER,
                    original_content=TEXT,
                    episode_id=number,
                    timestamp=writer,
                )
            )
            if stored is not None:
                await stored
            if broken != "early":
                say(f"{name} {number}")

    async def write_in_tasks() -> None:
        store = await AsyncMessageStore.initialize(config)
        await asyncio.gather(*(write(store, writer) for writer in range(WRITERS)))

    if api == "async":
        asyncio.run(write_in_tasks())
    store = MessageStore.initialize(config)
    for writer in range(WRITERS):
        threading.Thread(target=asyncio.run, args=(write(store, writer),)).start()


def write_in_place(path: str, content: Any, **_: object) -> None:
    """Write in place, which is wrong: a process that is killed meanwhile leaves half a file."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    for block in content:
        os.write(fd, block)
        time.sleep(0.001)
    os.close(fd)


def store_pairs(store: LongTermMemoryStore, name: str) -> None:
    for number in range(sys.maxsize):
        key = f"{number:06}"
        sides = [
            MemoryItem(namespace=(name, side), key=key, value={}) for side in ("left", "right")
        ]
        newest = MemoryItem(namespace=(name, "last"), key=key, value={})
        last = DeleteItem((name, "last"), f"{number - 1:06}")
        store.apply([*map(PutItem, sides), last, PutItem(newest)])
        say(number)


def add(store: LongTermMemoryStore, count: str) -> None:
    for _ in range(int(count)):
        while True:
            stored = store.get(SHARED, "number")
            number = stored.value["number"] if stored else 0
            item = MemoryItem(namespace=SHARED, key="number", value={"number": number + 1})
            try:
                store.put(item, expected_revision=stored.revision if stored else None)
            except ConflictError:
                continue
            break


def main(config: Any, what: str, *arguments: str) -> None:
    if what == "messages":
        write_messages(config, *arguments)
    elif what == "updates":
        with WorkingMemoryStore.initialize(config) as memory:
            while True:
                say(memory.end_turn("c", "Hello", "greet").revision)
    elif what in ("pairs", "add"):
        with LongTermMemoryStore.initialize(config) as items:
            {"pairs": store_pairs, "add": add}[what](items, *arguments)
    else:
        with MessageStore.initialize(config) as store:
            say("begins")
            if what == "erase":
                store.erase_user("ann")
            elif what == "prune":
                store.prune_conversations(before=int(arguments[0]))
            else:
                copy = Conversation(id="copy", user_id="ann", agent_id="a1", last_updated_at=0)
                store.fork_conversation("long", copy)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), *sys.argv[2:])
