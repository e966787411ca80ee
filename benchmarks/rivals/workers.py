"""The driver's side of worker processes, each with the store of a library."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from benchmarks.frame.environments import ROOT, python_of
from benchmarks.rivals.rivals import Rival

DEADLINE = 900.0
"""Seconds after which a worker that does not answer is killed."""


class WorkerError(Exception):
    """A call raised, or its process ended; the text is the worker's traceback."""


class Worker:
    """A process in the environment of a library, with one store."""

    def __init__(self, rival: Rival, own_clock: bool) -> None:
        store = f"{rival.adapter.__module__}:{rival.adapter.__qualname__}"
        command = [str(python_of(rival.environment.folder)), "-m", "benchmarks.rivals.worker"]
        self._process = subprocess.Popen(
            [*command, store, *["own-clock"] * own_clock],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def call(self, method: str, **arguments: object) -> Any:
        self.send(method, **arguments)
        return self.receive()

    def send(self, method: str, **arguments: object) -> None:
        """Start a call; several workers can run calls before the first `receive`."""
        assert self._process.stdin is not None
        print(json.dumps({"call": method, "arguments": arguments}), file=self._process.stdin)
        self._process.stdin.flush()

    def receive(self) -> Any:
        assert self._process.stdout is not None
        watchdog = threading.Timer(DEADLINE, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        if not line:
            raise WorkerError(f"the worker ended with status {self._process.wait()}")
        reply = json.loads(line)
        if "error" in reply:
            raise WorkerError(reply["error"])
        return reply["result"]

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def processes(rival: Rival, count: int, *, own_clock: bool = False) -> Iterator[list[Worker]]:
    """Processes in the library's environment, for a block."""
    with ExitStack() as stack:
        workers = []
        for _ in range(count):
            workers.append(Worker(rival, own_clock))
            stack.callback(workers[-1].end)
        yield workers


@contextmanager
def opened(workers: Sequence[Worker], address: str) -> Iterator[None]:
    """Open the stores of some processes; the first creates the tables before the others open."""
    first, *others = workers
    first.call("open", place=address)
    for worker in others:
        worker.send("open", place=address)
    for worker in others:
        worker.receive()
    yield
    for worker in workers:
        worker.call("close")
