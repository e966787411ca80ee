"""How much of everything is tried: little in the suite, much where JAZZMINE_SOAK=1."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["SOAK", "size", "tell"]

SOAK = os.environ.get("JAZZMINE_SOAK") == "1"


def size(small: int, large: int) -> int:
    """The number for the suite, or the one for `scripts/soak`."""
    return large if SOAK else small


def tell(figure: str) -> None:
    """Add a line to the figures that `scripts/soak` prints at its end."""
    path = os.environ.get("JAZZMINE_FIGURES")
    if path:
        with Path(path).open("a") as file:
            file.write(f"{figure}\n")
