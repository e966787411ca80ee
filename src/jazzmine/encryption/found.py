"""The keys of stored values."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

__all__ = ["KeysFound"]


class KeysFound(NamedTuple):
    """The keys of some values when they were read.

    Attributes:
        kind: the kind of the values, such as "messages".
        counts: the number of values by the id of their key; None counts plain values.
        refused: a text for each value that was not encrypted anew, or does not open.
    """

    kind: str
    counts: Counter[str | None]
    refused: list[str]
