"""Makes the store of a configuration, which is not open yet, and one user's view of a store.

The module of a store and its driver are imported only here: an ImportError names the extra.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jazzmine.config import (
    BackendConfig,
    JSONStoreConfig,
    MemoryMessagesConfig,
    MemoryStoreConfig,
    MongoDBConfig,
    PostgresConfig,
    PostgresMemoryConfig,
    RedisConfig,
    SQLiteConfig,
    SQLiteMemoryConfig,
)
from jazzmine.search.vectors import Embed

__all__ = [
    "new_long_term_memory",
    "new_message_store",
    "new_working_memory",
    "view_of_long_term_memory",
    "view_of_message_store",
    "view_of_working_memory",
]

# The module of a store, and the name of its class or function.
_MESSAGES: dict[type[BackendConfig], tuple[str, str]] = {
    JSONStoreConfig: (".message_store.json", "JSONMessageStore"),
    MemoryMessagesConfig: (".message_store.memory", "InMemoryMessageStore"),
    MongoDBConfig: (".message_store.mongodb", "MongoDBMessageStore"),
    PostgresConfig: (".message_store.postgres", "PostgresMessageStore"),
    SQLiteConfig: (".message_store.sqlite", "SQLiteMessageStore"),
}
_WORKING_MEMORIES: dict[type[BackendConfig], tuple[str, str]] = {
    MemoryStoreConfig: (".working_memory.memory", "in_memory_store"),
    PostgresMemoryConfig: (".working_memory.postgres", "PostgresWorkingMemoryStore"),
    RedisConfig: (".working_memory.redis", "redis_store"),
    SQLiteMemoryConfig: (".working_memory.sqlite", "SQLiteWorkingMemoryStore"),
}
_LONG_TERM_MEMORIES: dict[type[BackendConfig], tuple[str, str]] = {
    MemoryMessagesConfig: (".long_term_memory.memory", "InMemoryLongTermMemoryStore"),
    MongoDBConfig: (".long_term_memory.mongodb", "MongoDBLongTermMemoryStore"),
    PostgresConfig: (".long_term_memory.postgres", "PostgresLongTermMemoryStore"),
    SQLiteConfig: (".long_term_memory.sqlite", "SQLiteLongTermMemoryStore"),
}


def new_message_store(config: BackendConfig) -> Any:
    """Return the message store of a configuration."""
    return _class(_MESSAGES, config)(config)


def new_working_memory(config: BackendConfig) -> Any:
    """Return the working memory of a configuration."""
    return _class(_WORKING_MEMORIES, config)(config)


def new_long_term_memory(config: BackendConfig, embed: Embed | None = None) -> Any:
    """Return the long-term memory of a configuration.

    Args:
        config: the configuration.
        embed: as `initialize` takes it.
    """
    return _class(_LONG_TERM_MEMORIES, config)(config, embed)


def view_of_message_store(store: Any, user_id: str) -> Any:
    """Return one user's view of a message store."""
    return _named(".message_store.scoped", "ScopedMessageStore")(store, user_id)


def view_of_working_memory(store: Any, user_id: str) -> Any:
    """Return one user's view of a working memory."""
    return _named(".working_memory.scoped", "ScopedWorkingMemoryStore")(store, user_id)


def view_of_long_term_memory(store: Any, user_id: str) -> Any:
    """Return one user's view of a long-term memory."""
    return _named(".long_term_memory.scoped", "ScopedLongTermMemoryStore")(store, user_id)


def _class(places: dict[type[BackendConfig], tuple[str, str]], config: BackendConfig) -> Any:
    return _named(*places[type(config)])


def _named(module: str, name: str) -> Any:
    return getattr(import_module(module, __package__), name)
