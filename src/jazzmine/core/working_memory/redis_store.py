"""The working-memory store on Redis, under the path that jazzmine 0.1 had for it."""

from __future__ import annotations

from jazzmine._async.working_memory.redis import RedisWorkingMemoryStore

__all__ = ["RedisWorkingMemoryStore"]
