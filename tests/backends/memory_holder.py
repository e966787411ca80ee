"""A process that uses a working memory: python -m tests.backends.memory_holder WHAT CONFIG [...].

CONFIG is the configuration as JSON.

hold CONFIG              takes the lock of "c", says so, and saves when a line comes in.
update CONFIG COUNT NAME makes COUNT updates of "c" when a line comes in, and prints for each the
                         revision it found, NAME, and when it entered and left the block.
count CONFIG             updates "c" without an end, and prints each revision that was saved.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from jazzmine.errors import JazzmineError, LockTimeoutError
from jazzmine.sync.working_memory import WorkingMemoryStore


def hold(config: str) -> None:
    with WorkingMemoryStore.initialize(json.loads(config)) as store:
        try:
            with store.locked("c") as memory:
                print("held", flush=True)
                sys.stdin.readline()
                memory.end_turn("the late one", "late")
            print("saved", flush=True)
        except JazzmineError as error:
            print(type(error).__name__, flush=True)


def update(config: str, count: str, name: str) -> None:
    with WorkingMemoryStore.initialize(json.loads(config)) as store:
        store.get("c")
        print("ready", flush=True)
        sys.stdin.readline()
        spans = []
        for _ in range(int(count)):
            with store.locked("c") as memory:
                entered = time.monotonic()
                memory.end_turn("Hello", name)
                spans.append((memory.revision, name, entered, time.monotonic()))
        print(json.dumps(spans), flush=True)


def count(config: str) -> None:
    with WorkingMemoryStore.initialize(json.loads(config)) as store:
        while True:
            with suppress(LockTimeoutError):  # a process that was killed held it
                print(store.end_turn("c", "Hello", "greet").revision, flush=True)


if __name__ == "__main__":
    work: dict[str, Callable[..., None]] = {"hold": hold, "update": update, "count": count}
    work[sys.argv[1]](*sys.argv[2:])
