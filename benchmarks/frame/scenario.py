"""The base class of what a worker process runs."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path

Figures = dict[str, float]
"""What one measurement found: seconds, bytes or counts, by name."""


class Scenario:
    """One case of a question: made ready once, then measured as often as the driver asks.

    A scenario is made in the worker from a folder of its own and the options of its side (JSON
    values). Its methods may be plain or coroutines; the driver can call any of them by name.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> Awaitable[None] | None:
        """Set up what is not measured."""
        return None

    def measure(self) -> Awaitable[Figures] | Figures:
        """Do it once, and tell what it cost."""
        raise NotImplementedError

    def finish(self) -> Awaitable[None] | None:
        """Release what `prepare` opened."""
        return None
