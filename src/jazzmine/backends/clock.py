"""Compare the clock of a server with this machine's."""

from __future__ import annotations

from jazzmine.findings import Finding, fine, warning

_MOST_SECONDS = 2.0


def compared(server: float, before: float, after: float) -> Finding:
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
