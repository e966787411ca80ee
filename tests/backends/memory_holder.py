"""A process that uses a working memory: python -m tests.backends.memory_holder WHAT CONFIG [...].

CONFIG is the configuration as JSON.

hold CONFIG              takes the lock of "c", says so, and saves when a line comes in.
wait CONFIG              joins the queue for the lock of "c", and suspends itself.
update CONFIG COUNT NAME makes COUNT updates of "c" when a line comes in, and prints for each the
                         revision it found, NAME, and when it entered and left the block.
count CONFIG             updates "c" without an end, and prints each revision that was saved.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

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


def wait(config: str) -> None:
    with WorkingMemoryStore.initialize(json.loads(config)) as store:
        suspend_when_queued(store)
        store.end_turn("c", "Hello", "greet")


def suspend_when_queued(store: Any) -> None:
    """Have a store suspend this process when it has joined a queue.

    Then no request is on its way, which would take the lock if it arrived after its release.
    """
    take = store._take

    def take_and_suspend(lease: Any) -> Any:
        found = take(lease)
        if lease.tries == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        return found

    store._take = take_and_suspend


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
    work: dict[str, Callable[..., None]] = {
        "hold": hold,
        "wait": wait,
        "update": update,
        "count": count,
    }
    work[sys.argv[1]](*sys.argv[2:])
