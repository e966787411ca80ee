"""Chooses the class of the long-term memory for a configuration."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jazzmine.config import (
    BackendConfig,
    MemoryMessagesConfig,
    MongoDBConfig,
    PostgresConfig,
    SQLiteConfig,
)
from jazzmine.search.vectors import Embed

__all__ = ["new_store"]

# The module next to this one, imported only when a store is created, and the class in it.
_STORES: dict[type[BackendConfig], tuple[str, str]] = {
    MemoryMessagesConfig: (".memory", "InMemoryLongTermMemoryStore"),
    SQLiteConfig: (".sqlite", "SQLiteLongTermMemoryStore"),
    PostgresConfig: (".postgres", "PostgresLongTermMemoryStore"),
    MongoDBConfig: (".mongodb", "MongoDBLongTermMemoryStore"),
}


def new_store(config: BackendConfig, embed: Embed | None = None) -> Any:
    """Create the long-term memory for a configuration, without opening it.

    Args:
        config: which one.
        embed: as `initialize` takes it.

    Raises:
        ImportError: the back end's driver is not installed.
    """
    module, name = _STORES[type(config)]
    return getattr(import_module(module, __package__), name)(config, embed)
