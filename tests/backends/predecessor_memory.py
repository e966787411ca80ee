"""Has jazzmine 0.1.42 write working memory to Redis, and prints what it reads of that, as JSON.

Run by the interpreter of its environment: python -m
tests.backends.predecessor_memory SOURCE URL CONVERSATIONS.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import redis.asyncio

from tests.servers import predecessor

ODD = "ü \ufdd0 \U0001f600 '\"\\"


async def main(source: str, url: str, names: str) -> None:
    predecessor.load(Path(source))
    from jazzmine.core import working_memory as old

    client = redis.asyncio.Redis.from_url(url)
    store: Any = old.RedisWorkingMemoryStore(client)
    found = {}
    for name in json.loads(names):
        await store.get_or_create(name, f"user of {name}", "agent")
        await store.begin_turn(
            name,
            old.TurnCache(1, intent="ask", raw_entities=[{"name": ODD, "attributes": ["a"]}]),
        )
        flow = old.ActiveFlowState("refund", ODD, "sequential", started_at_turn=1)
        await store.start_flow(name, flow)
        await store.register_slots(name, [old.Slot("order", ODD, "str")])
        await store.record_tool_call(name, old.ToolCallRecord("look up", {"a": [1, 0.1, ODD]}))
        await store.end_turn(name, ODD, "greet")
        found[name] = (await store.get(name)).to_dict()
    await client.aclose()
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
