"""The id of this process; asking the system in each call would cost a tenth of a small update."""

from __future__ import annotations

import os

__all__ = ["process_id"]

_known = [os.getpid()]


def process_id() -> int:
    """Return the id of this process, also in a forked one."""
    return _known[0]


def _note() -> None:
    _known[0] = os.getpid()


os.register_at_fork(after_in_child=_note)
