"""The findings of the checks of a store's set-up."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """The result of one check.

    Attributes:
        level: "ok"; "warning" if it works but may fail or be slow later; "error" if it does not
            work.
        text: the finding.
        cure: the remedy.
    """

    level: Literal["ok", "warning", "error"]
    text: str
    cure: str = ""


def fine(text: str) -> Finding:
    """Return a finding without a problem."""
    return Finding("ok", text)


def warning(text: str, cure: str) -> Finding:
    """Return the finding of a problem that may cause failures later."""
    return Finding("warning", text, cure)


def failed(text: str, cure: str) -> Finding:
    """Return the finding of a failure."""
    return Finding("error", text, cure)
