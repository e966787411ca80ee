"""A working memory whose calls do not wait for each other, and that saves whatever is stored."""

from __future__ import annotations

import time

from jazzmine._sync.keyed_locks import KeyedLocks
from jazzmine._sync.working_memory.backend import Again
from jazzmine._sync.working_memory.memory import MemoryBackend
from jazzmine._sync.working_memory.updates import Block
from jazzmine.config import MemoryOptions
from jazzmine.deadline import Deadline
from jazzmine.records.stored_memory import Locked, Save, Stored
from jazzmine.sync.working_memory import WorkingMemoryStore


class WritesOverAnything(MemoryBackend):
    """Writes whatever is stored."""

    def write(self, save: Save, again: Again, deadline: Deadline) -> Save | Locked | Stored:
        time.sleep(0.0005)
        stored = self.load(save.conversation_id, deadline)
        return super().write(save._replace(read_mark=stored.mark), again, deadline)


class NoLocks(KeyedLocks[Deadline | Block]):
    """Locks nothing."""

    def acquire(self, key: str, owner: Deadline | Block, timeout: float) -> bool:
        return True


class Unordered(WorkingMemoryStore):
    """Loses updates."""

    def __init__(self) -> None:
        super().__init__(WritesOverAnything(3600.0), MemoryOptions())
        self._calls = NoLocks()
