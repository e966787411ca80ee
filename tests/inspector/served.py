"""The program `jazzmine inspect`, as one of its own."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.program import COMMAND, environment
from tests.servers.programs import Program


class Served:
    """A program that serves, the address that it printed, and all that it wrote."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        assert process.stdout is not None
        self.process = process
        self.address = process.stdout.readline().strip()
        self._errors = errors

    @property
    def base(self) -> str:
        """The address without path and token."""
        return self.address.partition("/?")[0]

    @property
    def token(self) -> str:
        """The token of the address."""
        return self.address.partition("token=")[2]

    def stop(self) -> tuple[int, str]:
        """Interrupt the program; return its exit status and what it wrote after the address."""
        self.process.send_signal(signal.SIGINT)
        rest, _ = self.process.communicate(timeout=240)
        return self.process.returncode, rest + self._errors.read_text()


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[Served]:
    """Run the program until the end of the block."""
    errors = folder / "errors.txt"
    with errors.open("w") as written:
        process = Program(
            [*COMMAND, "inspect", *arguments],
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
            env=environment(),
        )
    try:
        yield Served(process, errors)
    finally:
        process.kill()
        process.communicate()
