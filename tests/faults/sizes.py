"""The size of the tests: small in the suite, large with JAZZMINE_SOAK=1."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

__all__ = ["LENIENCE", "SOAK", "size", "some", "tell"]

T = TypeVar("T")

SOAK = os.environ.get("JAZZMINE_SOAK") == "1"

LENIENCE = 0.0 if SOAK else 2.0
"""How many seconds later than promised something may happen: the suite's machine may be busy."""


def size(small: int, large: int) -> int:
    """The number for the suite, or the one for `scripts/soak`."""
    return large if SOAK else small


def some(things: Iterable[T], count: int) -> list[T]:
    """For the suite `count` of them, always the same; for `scripts/soak` all."""
    found = list(things)
    return found if SOAK else random.Random(17).sample(found, min(count, len(found)))


def tell(figure: str) -> None:
    """Add a line to the figures that `scripts/soak` prints at its end."""
    path = os.environ.get("JAZZMINE_FIGURES")
    if path:
        with Path(path).open("a") as file:
            file.write(f"{figure}\n")
