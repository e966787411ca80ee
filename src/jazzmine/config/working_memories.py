"""The configurations of working memories."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

from jazzmine.config.base import BackendConfig, refuse_options, require_seconds, require_text
from jazzmine.config.message_stores import PostgresConfig, SQLiteConfig
from jazzmine.errors import ConfigurationError, InvalidAddressError

__all__ = ["MemoryStoreConfig", "PostgresMemoryConfig", "RedisConfig", "SQLiteMemoryConfig"]


@dataclass(frozen=True)
class MemoryStoreConfig(BackendConfig):
    """The configuration of a working memory in this process; times in s."""

    storage: ClassVar[str] = "memory"
    schemes: ClassVar[tuple[str, ...]] = ("memory",)

    ttl_seconds: float = 3600.0
    lock_timeout: float = 15.0
    timeout: float = 30.0

    def __post_init__(self) -> None:
        require_seconds("ttl_seconds", self.ttl_seconds)
        require_seconds("lock_timeout", self.lock_timeout)
        require_seconds("timeout", self.timeout)

    @classmethod
    def from_url(cls, url: str) -> MemoryStoreConfig:
        """Read `memory:`."""
        name, _, unknown = url.partition(":")[2].partition("?")
        if name:
            raise ConfigurationError("the URL of a working memory in this process is `memory:`")
        refuse_options(cls, unknown)
        return cls()


@dataclass(frozen=True)
class RedisConfig(BackendConfig):
    """The configuration of a working memory in Redis; times in s.

    Args:
        url: a URL of redis-py: redis://, rediss:// (TLS) or unix://.
    """

    storage: ClassVar[str] = "redis"
    schemes: ClassVar[tuple[str, ...]] = ("redis", "rediss", "unix")

    url: str = field(repr=False)
    ttl_seconds: float = 3600.0
    lock_timeout: float = 15.0
    timeout: float = 30.0

    def __post_init__(self) -> None:
        require_text("url", self.url)
        require_seconds("ttl_seconds", self.ttl_seconds)
        require_seconds("lock_timeout", self.lock_timeout)
        require_seconds("timeout", self.timeout)
        _require_redis_url(self.url)

    @classmethod
    def from_url(cls, url: str) -> RedisConfig:
        """Read a URL such as `redis://[[user]:password@]host[:port][/database]`."""
        return cls(url=url)


@dataclass(frozen=True)
class PostgresMemoryConfig(PostgresConfig):
    """The configuration of a working memory in PostgreSQL; times in s.

    Args:
        ttl_seconds: how long a working memory is kept after it was saved last.
        lock_timeout: how long an update waits for the conversation's lock.
    """

    ttl_seconds: float = 3600.0
    lock_timeout: float = 15.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_seconds("ttl_seconds", self.ttl_seconds)
        require_seconds("lock_timeout", self.lock_timeout)


@dataclass(frozen=True)
class SQLiteMemoryConfig(SQLiteConfig):
    """The configuration of a working memory in an SQLite database; times in s.

    Args:
        ttl_seconds: how long a working memory is kept after it was saved last.
        lock_timeout: how long an update waits for the conversation's lock.
    """

    ttl_seconds: float = 3600.0
    lock_timeout: float = 15.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_seconds("ttl_seconds", self.ttl_seconds)
        require_seconds("lock_timeout", self.lock_timeout)


def _require_redis_url(url: str) -> None:
    """Raise if redis-py cannot parse the URL; the error does not contain the URL."""
    scheme, separator, _ = url.partition("://")
    if not separator or scheme.lower() not in RedisConfig.schemes:
        raise InvalidAddressError("url must begin with redis://, rediss:// or unix://")
    try:
        parts = urlsplit(url)
        database = parts.path.strip("/") if scheme.lower() != "unix" else ""
        valid = parts.port != 0 and (not database or database.isdecimal())
    except ValueError:
        valid = False
    if not valid:
        raise InvalidAddressError("url has an invalid host, port or database number")
