"""What a check of a store's set-up finds."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Finding", "failed", "fine", "warning"]


class Finding(NamedTuple):
    """The result of one check.

    Attributes:
        level: "ok"; "warning" for what works and may fail or be slow later; "error" for what
            does not work.
        text: what was found.
        cure: what to do about it.
    """

    level: Literal["ok", "warning", "error"]
    text: str
    cure: str = ""


def fine(text: str) -> Finding:
    """Return the finding that something is as it should be."""
    return Finding("ok", text)


def warning(text: str, cure: str) -> Finding:
    """Return the finding that something works, and may fail or be slow later."""
    return Finding("warning", text, cure)


def failed(text: str, cure: str) -> Finding:
    """Return the finding that something does not work."""
    return Finding("error", text, cure)
