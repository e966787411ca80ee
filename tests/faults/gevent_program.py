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
from tests.faults.networks import is_memory

GREENLETS = 8
CALLS = 3
KILLED = 20


def opened(name: str, config: Any) -> tuple[Any, Callable[[str], object], Callable[[], int]]:
    """Open a store; return it, a write with a name, and what counts the writes."""
    store: Any
    if is_memory(name):
        store = WorkingMemoryStore.initialize(config)
        first = store.get_or_create("c1", "u1", "a1").revision
        return (
            store,
            lambda said: store.end_turn("c1", said, "intent"),
            lambda: store.get("c1").revision - first,
        )
    if name.endswith("_items"):
        store = LongTermMemoryStore.initialize(config)
        return (
            store,
            lambda key: store.put(MemoryItem(namespace=("n",), key=key, value={})),
            lambda: len(store.list_items(("n",))),
        )
    store = MessageStore.initialize(config)
    store.store_conversation(conversation("c1"))
    return (
        store,
        lambda one: store.append_messages("c1", [message(one)]),
        lambda: len(store.get_messages_by_conversation_id("c1")),
    )


def write_at_once(write: Callable[[str], object], prefix: str) -> None:
    def write_some(number: int) -> None:
        for call in range(CALLS):
            write(f"{prefix}-{number}-{call}")

    work = [gevent.spawn(write_some, number) for number in range(GREENLETS)]
    gevent.joinall(work, timeout=60, raise_error=True)
    assert all(one.ready() for one in work), "a call hangs"


def kill_some(write: Callable[[str], object]) -> None:
    for number in range(KILLED):
        one = gevent.spawn(write, "killed")
        gevent.sleep(0.0002 * number)
        one.kill()


def main(configs: dict[str, dict[str, Any]]) -> None:
    for name, config in configs.items():
        store, write, count = opened(name, config)
        with store:
            write_at_once(write, "first")
            found = {"stored": GREENLETS * CALLS, "found": count()}
            # psycopg's and PyMongo's pools may lose the connection of a killed greenlet (see the
            # guide docs/guides/celery.md).
            if config.get("storage") not in ("postgres", "mongodb"):
                kill_some(write)
            write_at_once(write, "later")
        print(json.dumps({name: found}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
