"""What is found about the keys of stored values."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

__all__ = ["KeysFound"]


class KeysFound(NamedTuple):
    """By which keys some values were encrypted when they were read.

    Attributes:
        kind: what they are, such as "messages".
        counts: how many there are by the id of their key; None is those that are plain.
        refused: why values were not encrypted anew, or do not open, an error's text for each.
    """

    kind: str
    counts: Counter[str | None]
    refused: list[str]
