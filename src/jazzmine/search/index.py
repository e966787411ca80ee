"""The state of a store's search index."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SearchState"]


class SearchState(NamedTuple):
    """The state of a search index.

    Attributes:
        language: the language of the stems; empty without stems.
        is_complete: whether all messages are indexed.
    """

    language: str
    is_complete: bool
