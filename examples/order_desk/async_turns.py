"""The first half of the demo: an async agent, which is killed while a flow waits for an answer."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import rules
from jazzmine.core import Message, MessageStore, WorkingMemoryStore


async def turn(
    store: MessageStore, memory: WorkingMemoryStore, message_id: str, text: str
) -> Message:
    """Answer a message of the user; it may be delivered twice, and repeated after a crash."""
    cid = rules.CONVERSATION
    await store.get_or_create_conversation(rules.conversation())
    known = await memory.get_or_create(cid, rules.USER, rules.AGENT)
    wm = await memory.begin_turn(cid, rules.understand(message_id, text, known))
    reply = await store.get_message_by_id(rules.reply_id(message_id))
    if reply is None:  # or else it was delivered twice, or the process died after the append
        newest = await store.get_messages_by_conversation_id(cid, order="newest", limit=1)
        recorder = rules.recorded(message_id, text, wm)
        [*_, reply] = await store.append_messages(
            cid,
            recorder.messages,
            expected_last=newest[-1].id if newest else None,
            trace=recorder.trace,
        )
    await memory.update(cid, lambda wm: rules.finish(wm, text), message_id=message_id)
    return reply


async def main(path: str) -> None:
    """Run the first four turns, and end without closing anything."""
    database = {"storage": "sqlite", "path": path}
    async with (
        await MessageStore.initialize(database) as store,
        await WorkingMemoryStore.initialize(database) as memory,
    ):
        said = (
            "Hello, where is my order 4711?",
            "It is not what I hoped for, I want to send it back.",
            "Because.",
            "It came damaged.",
        )
        for number, text in enumerate(said, 1):
            print(f"  Ada   {text}")
            reply = await turn(store, memory, f"{rules.CONVERSATION}-{number}", text)
            print(f"  Desk  {reply.original_content}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


asyncio.run(main(sys.argv[1]))
