"""The base class of the scenarios that a worker process runs."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path

Figures = dict[str, float]
"""The result of one measurement: seconds, bytes or counts, by name."""


class Scenario:
    """One case of a benchmark: prepared once, then measured several times.

    A scenario is made in the worker from a folder of its own and the options of its side (JSON
    values). Its methods may be functions or coroutines; the driver can call any of them by name.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> Awaitable[None] | None:
        """Prepare the measurements."""
        return None

    def measure(self) -> Awaitable[Figures] | Figures:
        """Make one measurement, and return its result."""
        raise NotImplementedError

    def finish(self) -> Awaitable[None] | None:
        """Close everything that `prepare` opened."""
        return None
