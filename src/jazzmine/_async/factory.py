"""Makes the store of a configuration, which is not open yet, and one user's view of a store.

The module of a store and its driver are imported only here: an ImportError names the extra. No
store imports its own subclasses.
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

# The module of a store, and the name of its class or function.
_MESSAGES: dict[type[Any], tuple[str, str]] = {
    JSONStoreConfig: (".message_store.json", "JSONMessageStore"),
    MemoryMessagesConfig: (".message_store.sqlite", "InMemoryMessageStore"),
    MongoDBConfig: (".message_store.mongodb", "MongoDBMessageStore"),
    PostgresConfig: (".message_store.postgres", "PostgresMessageStore"),
    SQLiteConfig: (".message_store.sqlite", "SQLiteMessageStore"),
}
_WORKING_MEMORIES: dict[type[Any], tuple[str, str]] = {
    MemoryStoreConfig: (".working_memory.memory", "in_memory_store"),
    PostgresMemoryConfig: (".working_memory.postgres", "PostgresWorkingMemoryStore"),
    RedisConfig: (".working_memory.redis", "redis_store"),
    SQLiteMemoryConfig: (".working_memory.sqlite", "SQLiteWorkingMemoryStore"),
}
_LONG_TERM_MEMORIES: dict[type[Any], tuple[str, str]] = {
    MemoryMessagesConfig: (".long_term_memory.sqlite", "InMemoryLongTermMemoryStore"),
    MongoDBConfig: (".long_term_memory.mongodb", "MongoDBLongTermMemoryStore"),
    PostgresConfig: (".long_term_memory.postgres", "PostgresLongTermMemoryStore"),
    SQLiteConfig: (".long_term_memory.sqlite", "SQLiteLongTermMemoryStore"),
}

_VIEWS = {
    "message_store": "ScopedMessageStore",
    "working_memory": "ScopedWorkingMemoryStore",
    "long_term_memory": "ScopedLongTermMemoryStore",
}


# The argument `client` is that of several stores; without it a store has its own.


def new_message_store(config: BackendConfig, **client: Any) -> Any:
    """Return the message store of a configuration."""
    return _made(_MESSAGES, config, **client)


def new_working_memory(config: BackendConfig, **client: Any) -> Any:
    """Return the working memory of a configuration."""
    return _made(_WORKING_MEMORIES, config, **client)


def new_long_term_memory(config: BackendConfig, embed: Embed | None = None, **client: Any) -> Any:
    """Return the long-term memory of a configuration; `embed` is as `initialize` takes it."""
    return _made(_LONG_TERM_MEMORIES, config, embed, **client)


def new_view(kind: str, store: Any, user_id: str) -> Any:
    """Return one user's view of a store, whose kind is the name of its folder."""
    return getattr(import_module(f".{kind}.scoped", __package__), _VIEWS[kind])(store, user_id)


def _made(
    places: dict[type[Any], tuple[str, str]],
    config: BackendConfig,
    *arguments: object,
    **client: object,
) -> Any:
    # A class of configurations for all three kinds of store is one of each kind, too.
    module, name = next(places[kind] for kind in type(config).__mro__ if kind in places)
    return getattr(import_module(module, __package__), name)(config, *arguments, **client)
