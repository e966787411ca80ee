"""The first half of the demo: an async agent, which is killed while a flow waits for an answer."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import rules
from jazzmine.core import MessageStore, WorkingMemoryStore


async def turn(store: MessageStore, memory: WorkingMemoryStore, text: str) -> str:
    """Answer a message of the user, and store the whole turn: all of it or nothing."""
    began = time.time()
    cid = rules.CONVERSATION
    known = await memory.get_or_create(cid, rules.USER, rules.AGENT)
    await memory.begin_turn(cid, rules.understand(text, known))
    async with memory.locked(cid) as wm:
        reply = rules.answer(wm, text)
    now = await memory.end_turn(cid, reply.text, reply.intent)
    await store.get_or_create_conversation(rules.conversation(now))
    messages, trace = rules.messages(now, text, reply), rules.trace(now, began)
    await store.append_messages(cid, messages, trace=trace)
    return reply.text


async def main(path: str) -> None:
    """Run the first four turns, and end without closing anything."""
    database = {"storage": "sqlite", "path": path}
    async with (
        await MessageStore.initialize(database) as store,
        await WorkingMemoryStore.initialize(database) as memory,
    ):
        for text in (
            "Hello, where is my order 4711?",
            "It is not what I hoped for, I want to send it back.",
            "Because.",
            "It came damaged.",
        ):
            print(f"  Ada   {text}")
            print(f"  Desk  {await turn(store, memory, text)}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


asyncio.run(main(sys.argv[1]))
