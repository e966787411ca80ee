"""Store with jazzmine 0.1.42 values that are invalid today, and print the stored ids.

Run by the interpreter of its environment: python -m tests.cli.predecessor SOURCE CONFIG, in which
CONFIG is JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.servers import predecessor

NAN, INFINITY, BIG, LONE = float("nan"), float("inf"), 2**70, "half \ud83d"


def nested(levels: int) -> Any:
    value: Any = "deep"
    for _ in range(levels):
        value = [value]
    return value


CONVERSATION = {"agent_id": "a", "title": "t", "created_at": 1, "last_updated_at": 2}
CONVERSATIONS: dict[str, dict[str, Any]] = {
    "c": {"user_id": "u"},
    "empty user": {"user_id": ""},
    "empty agent": {"user_id": "u", "agent_id": ""},
    "lone title": {"user_id": "u", "title": LONE},
    "big time": {"user_id": "u", "created_at": BIG},
    "": {"user_id": "v"},
}
MESSAGE = {
    "conversation_id": "c",
    "user_id": "u",
    "role": "user",
    "original_content": "hello",
    "timestamp": 5,
}
MESSAGES: dict[str, dict[str, Any]] = {
    "fine": {},
    "m empty user": {"user_id": ""},
    "m lone text": {"original_content": LONE, "explicit_context": [LONE], "errors": [LONE]},
    "m lone entity": {"entities": [{"name": LONE, "attributes": [LONE]}]},
    "m big episode": {"episode_id": BIG},
    "m big time": {"timestamp": BIG},
    "": {"conversation_id": "", "user_id": "v"},
    **{f"owner of {number}": {} for number in range(13)},
}
TRACE = {
    "conversation_id": "c",
    "user_id": "u",
    "agent_id": "a",
    "turn_number": 1,
    "started_at_ms": 4,
    "ended_at_ms": 5,
    "total_latency_ms": 1,
}
TASK = {"task_index": 1, "sandbox": "s", "mode": "plan", "description": "d"}
SLOT = {"flow_name": "f", "slot_name": "s", "slot_type": "t", "required": True}
CALL = {"purpose": "other", "model": "m", "timestamp_ms": 1}
TRACES: list[tuple[str, dict[str, Any]]] = [
    ("fine", {}),
    ("nan energy", {"total_energy_kwh": NAN, "total_co2_g": INFINITY, "sentiment_score": -NAN}),
    ("nan data", {"tool_traces": [{**TASK, "final_data": {"a": [NAN, -INFINITY, 1.5]}}]}),
    ("big data", {"tool_traces": [{**TASK, "final_data": {"a": [BIG, -BIG]}}]}),
    ("reference", {"tool_traces": [{**TASK, "final_data": {"$ref": "a", "$id": "b"}}]}),
    ("zero key", {"tool_traces": [{**TASK, "intermediates": [{"a\0b": {"\0": 1}}]}]}),
    ("lone data", {"slot_events": [{**SLOT, "value": {LONE: LONE}}]}),
    ("deep data", {"tool_traces": [{**TASK, "api_calls": [{"deep": nested(70)}]}]}),
    ("big latency", {"llm_calls": [{**CALL, "latency_ms": BIG, "total_tokens": -BIG}]}),
    (
        "nan emission",
        {"emission_records": [{"type": "llm", "energy_kwh": NAN, "metadata": {"n": NAN}}]},
    ),
    ("empty agent", {"agent_id": "", "user_id": ""}),
    ("lone names", {"detected_entities": [LONE], "detected_intent": LONE, "errors": [LONE]}),
    ("big memory", {"tool_traces": [{**TASK, "peak_memory_bytes": BIG, "output_bytes": BIG}]}),
    ("of empty", {"message_id": "", "conversation_id": "", "total_co2_g": NAN}),
]


async def main(source: str, config: str) -> None:
    predecessor.load(Path(source))
    from jazzmine.core import message_store as old
    from jazzmine.core.message_store import models

    store: Any = await old.MessageStore.initialize(json.loads(config))

    def writes() -> Iterator[tuple[str, Any]]:
        for name, fields in CONVERSATIONS.items():
            conversation = old.Conversation(**{**CONVERSATION, "id": name, **fields})
            yield name, store.store_conversation(conversation)
        for name, fields in MESSAGES.items():
            yield name, store.store_message(old.Message(**{**MESSAGE, "id": name, **fields}))
        for number, (name, fields) in enumerate(TRACES):
            given = {**TRACE, "id": f"t {name}", "message_id": f"owner of {number}", **fields}
            yield f"t {name}", store.store_turn_trace(models.TurnTrace(**given))

    stored = []
    for name, write in writes():
        try:
            await write
        except Exception as error:
            print(f"{name}: {error!r}"[:200], file=sys.stderr)
        else:
            stored.append(name)
    await store.close()
    print(json.dumps(stored))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
