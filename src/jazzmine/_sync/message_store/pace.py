"""Limits how long each step of an erasure or a prune makes other calls wait."""

from __future__ import annotations

import time

from jazzmine._compat.sync_concurrency import sleep

__all__ = ["Pace"]

# How long a step may take, in s: other calls may have to wait for its locks.
_STEP = 0.001

# A pause is a multiple of the step before it, and not longer than this, in s.
_PAUSE_PER_STEP, _LONGEST_PAUSE = 4, 0.01

# How many records a step deletes at most.
_LARGEST = 200


class Pace:
    """Chooses how many records each step of an erasure or a prune deletes, and pauses after each.

    A step that took too long halves the size of the next one; any other increases it.

    Args:
        smallest: how many records a step deletes at least.

    Attributes:
        size: how many records the next step shall delete.
    """

    def __init__(self, smallest: int) -> None:
        self._smallest = smallest
        self.size: int = smallest
        self._began = time.monotonic()

    def end_step(self) -> None:
        """Choose the size of the next step, let other calls go first, and begin it."""
        took = time.monotonic() - self._began
        if took > _STEP:
            self.size = max(self.size // 2, self._smallest)
        else:
            self.size = min(self.size + self._smallest, _LARGEST)
        sleep(min(took * _PAUSE_PER_STEP, _LONGEST_PAUSE))
        self._began = time.monotonic()
