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


_MOST_SECONDS = 2.0


def clocks_compared(server: float, before: float, after: float) -> Finding:
    """Return the finding of a comparison of clocks; all times in s since the Unix epoch.

    Args:
        server: the server's time.
        before: this machine's time before the server was asked.
        after: its time after the answer.
    """
    skew = max(before - server, server - after, 0.0)
    if skew <= _MOST_SECONDS:
        return fine("the clocks agree")
    direction = "behind" if server < before else "ahead of"
    return warning(
        f"the server's clock is {skew:.0f} s {direction} this machine's; messages are ordered by"
        " the times that each machine gives them",
        "set both clocks by NTP: timedatectl set-ntp true",
    )
