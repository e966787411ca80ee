"""The process of a server for the tests, in its own folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.servers import run_folder

if TYPE_CHECKING:
    from typing import Self


_SECONDS_TO_START = 60.0


def free_port() -> int:
    """Return a port that no process uses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class ServerProcess(ABC):
    """A server for the tests, in its own folder; a context manager.

    Args:
        kind: the name of the program, for error messages.
        port: the port that it listens on.
    """

    def __init__(self, kind: str, port: int) -> None:
        self._kind = kind
        self._folder = run_folder.new_folder(kind.partition(" ")[0].lower())
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    @abstractmethod
    def start(self) -> None:
        """Start the server on the same port as before, and wait until it answers."""

    def _start(self, command: Sequence[str], answers: Callable[[], bool], **options: Any) -> None:
        """Start a command, and wait until a function says that the server answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = run_folder.start(
                self._kind, command, stdout=log, stderr=log, cwd=self._folder, **options
            )
        deadline = time.monotonic() + _SECONDS_TO_START
        while not answers():
            status = self._process.poll()
            if status is not None or time.monotonic() > deadline:
                self.kill()
                said = (self._folder / "log").read_text()
                raise run_folder.cannot_start(self._kind, command, said, status)
            time.sleep(0.02)

    def _end(self, how: signal.Signals) -> None:
        """End the server with a signal."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """Kill the server."""
        self._end(signal.SIGKILL)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Suspend the server for a block; its connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # until the process is suspended
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)
