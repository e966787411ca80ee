"""A process that uses a working memory: python -m tests.backends.memory_holder WHAT CONFIG [...].

CONFIG is the configuration as JSON.

hold CONFIG              takes the lock of "c", says so, and saves when a line comes in.
update CONFIG COUNT      makes COUNT updates of "c" when a line comes in, and prints how long each
                         took, in s.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from jazzmine.errors import JazzmineError
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.servers.programs import Program


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


def update(config: str, count: str) -> None:
    with WorkingMemoryStore.initialize(json.loads(config)) as store:
        store.get("c")
        print("ready", flush=True)
        sys.stdin.readline()
        times = []
        for _ in range(int(count)):
            began = time.monotonic()
            store.end_turn("c", "Hello", "greet")
            times.append(time.monotonic() - began)
        print(json.dumps(times), flush=True)


# For the tests that start it


@contextmanager
def process(
    what: str, config: Mapping[str, Any], *arguments: str
) -> Iterator[subprocess.Popen[str]]:
    """Provide a process, and kill it at the end."""
    module = [sys.executable, "-m", "tests.backends.memory_holder"]
    command = [*module, what, json.dumps(dict(config)), *arguments]
    pipe = subprocess.PIPE
    with Program(command, stdin=pipe, stdout=pipe, text=True, bufsize=1) as started:
        try:
            yield started
        finally:
            started.kill()


def line_from(started: subprocess.Popen[str]) -> str:
    """Return the next line that a process writes."""
    assert started.stdout is not None
    return started.stdout.readline().strip()


def send_line(started: subprocess.Popen[str]) -> None:
    """Send a process a line."""
    assert started.stdin is not None
    started.stdin.write("go\n")
    started.stdin.flush()


if __name__ == "__main__":
    work: dict[str, Callable[..., None]] = {"hold": hold, "update": update}
    work[sys.argv[1]](*sys.argv[2:])
