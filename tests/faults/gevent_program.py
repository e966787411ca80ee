"""Run by a test, with `python -m gevent.monkey --module`: uses the sync stores in greenlets.

It prints, for each store, how many records it has stored, and how many there are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import gevent

from jazzmine.sync.long_term_memory import LongTermMemoryStore, MemoryItem
from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.behaviour.samples import conversation, message

GREENLETS = 8
CALLS = 5
KILLED = 20


def all_at_once(call: Callable[[int], object]) -> None:
    work = [gevent.spawn(call, number) for number in range(GREENLETS)]
    gevent.joinall(work, timeout=60, raise_error=True)
    assert all(one.ready() for one in work), "a call hangs"


def kill_some(config: dict[str, object], call: Callable[[], object]) -> None:
    # psycopg's and PyMongo's pools may lose the connection of a killed greenlet (see the guide
    # docs/guides/celery.md).
    if config.get("storage") in ("postgres", "mongodb"):
        return
    for number in range(KILLED):
        one = gevent.spawn(call)
        gevent.sleep(0.0002 * number)
        one.kill()


def use_messages(config: dict[str, object]) -> dict[str, int]:
    with MessageStore.initialize(config) as store:
        store.store_conversation(conversation("c1"))

        def append(number: int) -> None:
            for call in range(CALLS):
                store.append_messages("c1", [message(f"{number}-{call}")])

        all_at_once(append)
        found = len(store.get_messages_by_conversation_id("c1"))
        kill_some(config, lambda: store.store_message(message("killed")))
        all_at_once(lambda number: store.store_message(message(f"later-{number}")))
    return {"stored": GREENLETS * CALLS, "found": found}


def use_memory(config: dict[str, object]) -> dict[str, int]:
    with WorkingMemoryStore.initialize(config) as store:
        first = store.get_or_create("c1", "u1", "a1").revision

        def update(number: int) -> None:
            for _ in range(CALLS):
                store.end_turn("c1", "response", "intent")

        all_at_once(update)
        memory = store.get("c1")
        assert memory is not None
        kill_some(config, lambda: store.end_turn("c1", "killed", "intent"))
        all_at_once(update)
    return {"stored": GREENLETS * CALLS, "found": memory.revision - first}


def use_items(config: dict[str, object]) -> dict[str, int]:
    with LongTermMemoryStore.initialize(config) as store:

        def put(number: int) -> None:
            for call in range(CALLS):
                store.put(MemoryItem(namespace=("n",), key=f"{number}-{call}", value={}))

        all_at_once(put)
        found = len(store.list_items(("n",)))
        kill_some(config, lambda: store.put(MemoryItem(namespace=("n",), key="killed", value={})))
        all_at_once(put)
    return {"stored": GREENLETS * CALLS, "found": found}


def main(configs: dict[str, dict[str, Any]]) -> None:
    for name, config in configs.items():
        is_memory = name in ("memory", "redis") or "_memory" in name
        use = use_memory if is_memory else use_items if "_items" in name else use_messages
        print(json.dumps({name: use(config)}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
