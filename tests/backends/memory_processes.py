"""Processes that use a working memory, for tests of its lock: they run `memory_holder`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.servers.programs import Program


@contextmanager
def process(
    what: str, config: Mapping[str, Any], *arguments: str
) -> Iterator[subprocess.Popen[str]]:
    """Provide a process of `memory_holder`, and kill it at the end."""
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


def stop(started: subprocess.Popen[str]) -> None:
    """Suspend a process."""
    started.send_signal(signal.SIGSTOP)
