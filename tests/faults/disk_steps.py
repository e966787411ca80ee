"""Run by tests under strace: some writes to a store in files, each of which may fail.

Arguments: the folder of the store, its kind, and "close" or "abandon". What the store holds after
each write that succeeded goes to the file `states` in the folder, a line of JSON each. It ends with
exit status 0 unless a write that raised has changed something.
"""

from __future__ import annotations

import gc
import json
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from jazzmine.errors import IntegrityError, LockTimeoutError, NotFoundError
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation, message, trace

State = Any

# A checkpoint every few writes: the file itself is written as well, not only the -wal file.
_PAGES_A_CHECKPOINT = 20

connect = sqlite3.connect

STEPS: list[Callable[[Any], object]] = [
    lambda store: store.store_conversation(conversation("c1")),
    lambda store: store.store_message(message("m1")),
    lambda store: store.store_turn(messages=[message("m2"), message("m3")], trace=trace("m3")),
    lambda store: store.store_conversation(conversation("c1", title="another title")),
    lambda store: store.store_messages(
        [message(f"n{number}", original_content="x" * 5_000) for number in range(6)]
    ),
    lambda store: store.flag_message("m1"),
    lambda store: store.store_turn(messages=[message("m2")], trace=trace("m2")),
    lambda store: store.delete_message("m3"),
    lambda store: store.store_message(message("m4", original_content="y" * 20_000)),
    lambda store: store.store_message(message("m5")),
]

NOTHING: State = [None, [], []]


def path_of(kind: str, folder: str | Path) -> Path:
    """Return the file of a kind of store."""
    return Path(folder, "messages.json" if kind == "json" else "messages.db")


def open_store(kind: str, folder: str | Path) -> MessageStore:
    """Open a store of a kind."""
    options = {} if kind == "json" else {"timeout": 2.0}
    return MessageStore.initialize({"storage": kind, "path": str(path_of(kind, folder)), **options})


def seen(store: Any) -> State:
    """Return what a store holds, in JSON types."""
    stored = store.get_conversation_by_id("c1")
    messages = [
        [one.id, one.is_flagged, len(one.original_content)]
        for one in store.get_messages_by_conversation_id("c1")
    ]
    traces = [one.id for one in store.get_turn_traces_by_conversation_id("c1")]
    return [stored and stored.title, messages, sorted(traces)]


def _seen_at_last(store: Any) -> State:
    # The call that fails may be one of a read.
    try:
        return seen(store)
    except OSError:
        return seen(store)


def _connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
    connection: sqlite3.Connection = connect(*arguments, **options)
    connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_A_CHECKPOINT}")
    return connection


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def main(folder: str, kind: str, end: str) -> None:
    """Make all writes."""
    patch.object(sqlite3, "connect", _connect).start()
    states = os.open(Path(folder, "states"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        store = open_store(kind, folder)
    except (OSError, LockTimeoutError) as error:
        print("not opened:", type(error).__name__, error)
        return
    before, descriptors = _seen_at_last(store), _descriptors()
    for step in STEPS:
        try:
            step(store)
        except (OSError, IntegrityError, NotFoundError, LockTimeoutError) as error:
            # What a write refers to may not have been stored, and a lock not have been released.
            print("failed:", type(error).__name__, error)
            assert _seen_at_last(store) == before, "a write that raised has changed something"
            continue
        before = _seen_at_last(store)
        os.writev(states, [json.dumps(before).encode() + b"\n"])
    gc.collect()  # the errors, whose tracebacks hold files
    if kind == "json":  # SQLite opens connections as they are needed
        assert _descriptors() <= descriptors + 1, "a descriptor has leaked"
    if end == "close":
        store.close()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
