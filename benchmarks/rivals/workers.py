"""The driver's side of a worker process."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.frame.environments import ROOT
from benchmarks.rivals.scenario import Scenario

DEADLINE = 900.0
"""Seconds after which a worker that does not answer is killed."""


class WorkerError(Exception):
    """A scenario raised, or its process ended; the text is the worker's traceback."""


class Worker:
    """A process that holds one scenario; `python` is the interpreter of its environment."""

    def __init__(self, python: str | Path) -> None:
        command = [str(python), "-m", "benchmarks.rivals.worker"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def make(self, scenario: type[Scenario], folder: Path, options: Mapping[str, object]) -> None:
        name = f"{scenario.__module__}:{scenario.__qualname__}"
        self._send({"scenario": name, "folder": str(folder), "options": dict(options)})
        self.receive()

    def call(self, method: str, **arguments: object) -> Any:
        self.send(method, **arguments)
        return self.receive()

    def send(self, method: str, **arguments: object) -> None:
        """Start a call; several workers can run calls before the first `receive`."""
        self._send({"call": method, "arguments": arguments})

    def receive(self) -> Any:
        assert self._process.stdout is not None
        watchdog = threading.Timer(DEADLINE, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise WorkerError(f"the worker ended with status {self._process.wait()}")
        reply = json.loads(line)
        if "error" in reply:
            raise WorkerError(reply["error"])
        return reply["result"]

    def _send(self, request: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._process.kill()
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
