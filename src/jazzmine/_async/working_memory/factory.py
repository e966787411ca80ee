"""Which class is the working-memory store of which configuration."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jazzmine.config import (
    BackendConfig,
    MemoryStoreConfig,
    PostgresMemoryConfig,
    RedisConfig,
    SQLiteMemoryConfig,
)

__all__ = ["new_store"]

# What makes the store, and its module beside this one, which is imported then.
_STORES: dict[type[BackendConfig], tuple[str, str]] = {
    MemoryStoreConfig: (".memory", "in_memory_store"),
    PostgresMemoryConfig: (".postgres", "PostgresWorkingMemoryStore"),
    SQLiteMemoryConfig: (".sqlite", "SQLiteWorkingMemoryStore"),
    RedisConfig: (".redis", "redis_store"),
}


def new_store(config: BackendConfig) -> Any:
    """Make the working-memory store of a configuration, which is not open yet.

    Raises:
        ImportError: the back end's driver is not installed.
    """
    module, name = _STORES[type(config)]
    return getattr(import_module(module, __package__), name)(config)
