"""What all stores of this process share."""

from __future__ import annotations

import os

#: The threads in which a function that was given to `update` runs.
UPDATING: set[int] = set()


class _Process:
    """This process, also where it was forked.

    Asking the system for the id in each call would cost a tenth of a small update.

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
