"""The size of the tests: small in the suite, large with JAZZMINE_SOAK=1."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

SOAK = os.environ.get("JAZZMINE_SOAK") == "1"

LENIENCE = 0.0 if SOAK else 2.0
"""Seconds that a store's time limit, or a pause, is longer because the machine may be busy."""

TOLERANCE = 0.0 if SOAK else 20.0
"""Seconds that a call may take longer than promised: it is a hang that a test of the suite has to
find, and only `scripts/soak` measures.
"""


def size(small: int, large: int) -> int:
    """Return the number for the suite, or the one for `scripts/soak`."""
    return large if SOAK else small


def some(things: Iterable[T], count: int) -> list[T]:
    """Return `count` of the items for the suite, always the same ones; all for `scripts/soak`."""
    found = list(things)
    return found if SOAK else random.Random(17).sample(found, min(count, len(found)))


def report(figure: str) -> None:
    """Add a line to the figures that `scripts/soak` prints at its end."""
    path = os.environ.get("JAZZMINE_FIGURES")
    if path:
        with Path(path).open("a") as file:
            file.write(f"{figure}\n")
