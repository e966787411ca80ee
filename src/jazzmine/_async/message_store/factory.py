"""Chooses the class of the message store for a configuration."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jazzmine.config import (
    BackendConfig,
    JSONStoreConfig,
    MemoryMessagesConfig,
    MongoDBConfig,
    PostgresConfig,
    SQLiteConfig,
)

__all__ = ["new_store"]

# The module next to this one, imported only when a store is created, and the class in it.
_STORES: dict[type[BackendConfig], tuple[str, str]] = {
    JSONStoreConfig: (".json", "JSONMessageStore"),
    MemoryMessagesConfig: (".memory", "InMemoryMessageStore"),
    MongoDBConfig: (".mongodb", "MongoDBMessageStore"),
    PostgresConfig: (".postgres", "PostgresMessageStore"),
    SQLiteConfig: (".sqlite", "SQLiteMessageStore"),
}


def new_store(config: BackendConfig) -> Any:
    """Create the message store for a configuration, without opening it.

    Raises:
        ImportError: the back end's driver is not installed.
    """
    module, name = _STORES[type(config)]
    return getattr(import_module(module, __package__), name)(config)
