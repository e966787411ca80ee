"""A process that uses a Redis store: python -m tests.backends.redis_holder WHAT URL [OPTIONS].

hold URL LOCK_TIMEOUT      takes the lock of "c", says so, and saves when a line comes in
update URL COUNT NAME      makes COUNT updates of "c", each with its own time and NAME
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from jazzmine.core.working_memory import ToolCallRecord
from jazzmine.errors import JazzmineError
from jazzmine.sync.working_memory import WorkingMemoryStore


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


def update(url: str, count: str, name: str) -> None:
    with WorkingMemoryStore.initialize({"storage": "redis", "url": url}) as store:
        store.get("c")
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(int(count)):
            with store.locked("c") as memory:
                entered = time.monotonic()
                call = ToolCallRecord(name, {"n": number, "entered": entered})
                memory.record_tool_call(call)
                assert memory.current_turn is not None
                memory.current_turn.tool_calls[-1].arguments["left"] = time.monotonic()


if __name__ == "__main__":
    work: dict[str, Callable[..., None]] = {"hold": hold, "update": update}
    work[sys.argv[1]](*sys.argv[2:])
