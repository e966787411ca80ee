"""A process that uses a Redis store: python -m tests.backends.redis_holder WHAT URL [OPTIONS].

hold URL LOCK_TIMEOUT    takes the lock of "c", prints a line, and saves when it reads one.
wait URL LOCK_TIMEOUT    joins the queue for the lock of "c", and suspends itself.
update URL COUNT NAME    makes COUNT updates of "c" when it reads a line, and prints for each the
                         revision it found, NAME, and when it entered and left the block.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from jazzmine.errors import JazzmineError
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.backends.memory_holder import suspend_when_queued


def hold(url: str, lock_timeout: str) -> None:
    config = {"storage": "redis", "url": url, "lock_timeout": float(lock_timeout)}
    with WorkingMemoryStore.initialize(config) as store:
        try:
            with store.locked("c") as memory:
                print("held", flush=True)
                sys.stdin.readline()
                memory.end_turn("the late one", "late")
            print("saved", flush=True)
        except JazzmineError as error:
            print(type(error).__name__, flush=True)


def wait(url: str, lock_timeout: str) -> None:
    config = {"storage": "redis", "url": url, "lock_timeout": float(lock_timeout)}
    with WorkingMemoryStore.initialize(config) as store:
        suspend_when_queued(store)
        store.end_turn("c", "Hello", "greet")


def update(url: str, count: str, name: str) -> None:
    with WorkingMemoryStore.initialize({"storage": "redis", "url": url}) as store:
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


if __name__ == "__main__":
    work: dict[str, Callable[..., None]] = {"hold": hold, "wait": wait, "update": update}
    work[sys.argv[1]](*sys.argv[2:])
