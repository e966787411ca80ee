"""The state of a store's search index."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SearchState"]


class SearchState(NamedTuple):
    """How a store's index was made.

    Attributes:
        language: that of the stems; empty if there are none.
        is_complete: whether all messages are indexed.
    """

    language: str
    is_complete: bool
