"""Fills a database with jazzmine 0.1.42, and prints what that version reads of it, as JSON.

Run by the interpreter of its environment: python -m tests.backends.predecessor
SOURCE DSN
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.servers import predecessor

ODD = "ü \ufdd0 \ufdd01 0.00 \U0001f600 '\"\\"


def conversations() -> list[dict[str, Any]]:
    return [
        {
            "id": name,
            "user_id": "u",
            "agent_id": "a",
            "title": ODD,
            "created_at": 1,
            "last_updated_at": 7,
        }
        for name in ("c2", "c1", "c3 \ufdd0")
    ]


def messages() -> list[dict[str, Any]]:
    return [
        {
            "id": name,
            "conversation_id": "c1" if name != "odd \ufdd0" else "c3 \ufdd0",
            "user_id": "u",
            "role": "colleague_assistant",
            "original_content": ODD,
            "enhanced_message": "so",
            "explicit_context": [ODD, ""],
            "episode_id": 3,
            "sentiment_score": -0.25,
            "intent": "refund",
            "entities": [{"name": ODD, "attributes": ["b"]}],
            "is_flagged": name == "m2",
            "timestamp": 5,
            "errors": [],
        }
        for name in ("m9", "m2", "m7", "m1", "odd \ufdd0")
    ]


def traces() -> list[dict[str, Any]]:
    call = {"purpose": "other", "model": ODD, "timestamp_ms": 1, "total_tokens": 12}
    task = {"task_index": 1, "sandbox": "s", "mode": "plan", "description": ODD}
    tool = {**task, "final_data": {"a": [1, 1.0, 0.1, 2**53, None, ODD]}}
    return [
        {
            "id": f"t {message}",
            "message_id": message,
            "conversation_id": "c1" if message != "odd \ufdd0" else "c3 \ufdd0",
            "user_id": "u",
            "agent_id": "a",
            "turn_number": 1,
            "started_at_ms": 4,
            "ended_at_ms": 5,
            "total_latency_ms": 1,
            "total_tokens": 12,
            "llm_calls": [call],
            "tool_traces": [tool],
            "emission_records": [{"type": "llm", "energy_kwh": 0.5}],
            "errors": [ODD],
            "total_energy_kwh": 0.5,
        }
        for message in ("m7", "m1", "odd \ufdd0")
    ]


async def main(source: str, dsn: str) -> None:
    predecessor.load(Path(source))
    from jazzmine.core import message_store as old
    from jazzmine.core.message_store import models

    store: Any = await old.MessageStore.initialize({"storage": "postgres", "dsn": dsn})
    for given in conversations():
        await store.store_conversation(old.Conversation(**given))
    for given in messages():
        await store.store_message(old.Message(**given))
    for given in traces():
        await store.store_turn_trace(models.TurnTrace(**given))
    found = {
        "conversations": await store.get_conversations_by_user_id("u"),
        "messages": await store.get_messages_by_user_id("u"),
        "traces": await store.get_turn_traces_by_agent_id("a"),
    }
    await store.close()
    plain = {
        kind: [record.model_dump(mode="json") for record in records]
        for kind, records in found.items()
    }
    print(json.dumps(plain))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
