"""The working-memory store, under the path that jazzmine 0.1 had for it."""

from __future__ import annotations

from jazzmine._async.working_memory.store import WorkingMemoryStore

__all__ = ["WorkingMemoryStore"]
