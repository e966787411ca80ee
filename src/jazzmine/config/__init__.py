"""The configuration of a store: a mapping, a URL, or None (the environment or a default)."""

from jazzmine.config.base import BackendConfig
from jazzmine.config.choice import (
    long_term_memory_config,
    message_store_config,
    shared_config,
    working_memory_config,
)
from jazzmine.config.message_stores import (
    JSONStoreConfig,
    MemoryMessagesConfig,
    MongoDBConfig,
    PostgresConfig,
    SQLiteConfig,
)
from jazzmine.config.working_memories import (
    MemoryOptions,
    MemoryStoreConfig,
    MoreMemoryOptions,
    PostgresMemoryConfig,
    RedisConfig,
    SQLiteMemoryConfig,
)

__all__ = [
    "BackendConfig",
    "JSONStoreConfig",
    "MemoryMessagesConfig",
    "MemoryOptions",
    "MemoryStoreConfig",
    "MongoDBConfig",
    "MoreMemoryOptions",
    "PostgresConfig",
    "PostgresMemoryConfig",
    "RedisConfig",
    "SQLiteConfig",
    "SQLiteMemoryConfig",
    "long_term_memory_config",
    "message_store_config",
    "shared_config",
    "working_memory_config",
]
