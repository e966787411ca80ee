"""How long does the inspector take for a page, with 100,000 conversations in the store?

The program `jazzmine inspect` answers over HTTP on the loopback address. One conversation has 1,000
messages and 500 traces, the others have a message each, half of them with a trace. A page later in
the list begins after the 50,000th conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from benchmarks.frame.lab import Lab, median_time
from benchmarks.frame.records import AGENT, START, conversation_id, conversations, messages, trace
from benchmarks.frame.results import Pairs, Row
from jazzmine.core.message_store import Conversation, MessageStore
from jazzmine.records.base import snapshot
from jazzmine.records.hook_arguments import Turn
from tests.inspector.served import served
from tests.servers.postgres import Server

CONVERSATIONS = 100_000
IN_THE_THREAD = 1_000
AT_ONCE = 5_000
CALLS = 20
ROUNDS = 5

THREAD = "the-thread"


def pages(folder: Path, url: str) -> list[dict[str, float]]:
    """Return the time of each kind of page, in each round."""
    later = conversation_id(CONVERSATIONS // 2)
    paths = {
        "first page": "/",
        "later page": f"/?after={later}",
        "one agent": f"/?agent={AGENT}",
        "thread": f"/conversation?id={THREAD}",
        "turns": "/turns",
        "usage": "/usage?range=all",
    }
    with (
        served(folder, "--store", url) as program,
        httpx.Client(base_url=program.base, follow_redirects=True, timeout=60) as client,
    ):
        assert client.get(program.address).status_code == 200

        def get(path: str) -> None:
            answered = client.get(path)
            assert answered.status_code == 200, answered.text

        return [
            {
                name: median_time([partial(get, path)] * (1 if name == "usage" else CALLS))
                for name, path in paths.items()
            }
            for _ in range(ROUNDS)
        ]


async def fill(config: dict[str, Any]) -> None:
    """Store the conversations, and the thread."""
    async with await MessageStore.initialize(config) as store:
        talks = conversations(CONVERSATIONS)
        for start in range(0, CONVERSATIONS, AT_ONCE):
            stop = start + AT_ONCE
            told = messages(start, stop, CONVERSATIONS)
            traced = [trace(number, CONVERSATIONS) for number in range(start, stop, 2)]
            given = Turn(
                [snapshot(one, Conversation) for one in talks[start:stop]],
                [snapshot(one, type(one)) for one in told],
                [snapshot(one, type(one)) for one in traced],
            )
            await store.backend.store(given)
        named = {"conversation_id": THREAD, "user_id": "user"}
        thread = messages(CONVERSATIONS, CONVERSATIONS + IN_THE_THREAD, 1)
        updated = START + (CONVERSATIONS + IN_THE_THREAD) * 700
        await store.store_conversation(
            Conversation(id=THREAD, user_id="user", agent_id=AGENT, last_updated_at=updated)
        )
        await store.store_messages(one.model_copy(update=named) for one in thread)
        for number in range(CONVERSATIONS + 1, CONVERSATIONS + IN_THE_THREAD, 2):
            await store.store_turn_trace(trace(number, 1).model_copy(update=named))


def answer(lab: Lab) -> Iterator[Row]:
    with Server("18", fsync=False) as server:
        path = lab.folder() / "messages.db"
        for kind, url, config in (
            ("SQLite", f"sqlite:{path}", {"storage": "sqlite", "path": str(path)}),
            ("PostgreSQL", server.dsn, {"storage": "postgres", "dsn": server.dsn}),
        ):
            asyncio.run(fill(config))
            found = pages(lab.folder(), url)
            for name in found[0]:
                yield Row(f"{kind}: {name}", Pairs([one[name] for one in found], []))
