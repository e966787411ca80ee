"""A program of one process with the scripted agent of a framework, on stores in one SQLite file.

Run as `python -m tests.adapters.played_program CONFIG NAME COMMAND TEXT`, with the configuration of
both stores as JSON, and one of these commands:

- `run`: one turn; prints what the framework loads then, as JSON.
- `killed`: one turn that is killed in the middle of its tool.
- `add`: stores what a user says, two messages at a time.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from jazzmine.sync import MessageStore
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from tests.adapters.played import Played, played

PAIRS = 10


async def _main(agent: Played, command: str, text: str) -> None:
    if command == "add":
        for number in range(PAIRS):
            await agent.add([f"{text} {number} {half}" for half in (0, 1)])
        return
    if command == "killed":
        agent.on_call = lambda: os._exit(0)
    await agent.run(text)
    print(json.dumps(await agent.history()))


if __name__ == "__main__":
    config, name, command, text = sys.argv[1:]
    place = json.loads(config)
    with MessageStore.initialize(place) as store, LongTermMemoryStore.initialize(place) as items:
        asyncio.run(_main(played(name, store, items), command, text))
