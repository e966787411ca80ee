"""Processes that use a Redis store, for tests of its lock: they run `redis_holder`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process for a block; it is killed at the end."""
    command = [sys.executable, "-m", "tests.backends.redis_holder", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1) as started:
        try:
            yield started
        finally:
            started.kill()


def line_from(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


def send_line(started: subprocess.Popen[str]) -> None:
    assert started.stdin is not None
    started.stdin.write("go\n")
    started.stdin.flush()
