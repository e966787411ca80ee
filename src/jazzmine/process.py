"""The id of this process; asking the system in each call would cost a tenth of a small update."""

from __future__ import annotations

import os

__all__ = ["PROCESS"]


class _Process:
    """This process, also where it was forked.

    Attributes:
        id: its id.
    """

    id: int

    def __init__(self) -> None:
        self.note_id()
        if hasattr(os, "register_at_fork"):  # Windows has no forks
            os.register_at_fork(after_in_child=self.note_id)

    def note_id(self) -> None:
        self.id = os.getpid()


PROCESS = _Process()
