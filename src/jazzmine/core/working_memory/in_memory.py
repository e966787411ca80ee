"""The working-memory store in memory, under the path that jazzmine 0.1 had for it."""

from __future__ import annotations

from jazzmine._async.working_memory.memory import InMemoryWorkingMemoryStore

__all__ = ["InMemoryWorkingMemoryStore"]
