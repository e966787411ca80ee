"""The configurations of working memories."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypedDict
from urllib.parse import urlsplit

from jazzmine.config.base import BackendConfig
from jazzmine.config.message_stores import MemoryMessagesConfig, PostgresConfig, SQLiteConfig
from jazzmine.encryption import Keyring
from jazzmine.errors import InvalidAddressError


@dataclass(frozen=True, kw_only=True)
class MemoryOptions(BackendConfig):
    """The options of every working memory, in s.

    Args:
        ttl_seconds: the time that a working memory is kept after its last save.
        lock_timeout: the longest wait for a `locked` block.
        lease_seconds: the longest delay by the lock of a killed block.
        strict: whether a transition that does not apply raises.
        timeout: the longest time of a call.
    """

    ttl_seconds: float = 3600.0
    lock_timeout: float = 15.0
    lease_seconds: float = 10.0
    strict: bool = False
    timeout: float = 30.0


class MoreMemoryOptions(TypedDict, total=False):
    """The options of every working memory that a store's class takes by keyword alone."""

    lease_seconds: float
    strict: bool
    timeout: float
    encryption: Keyring | str | None
    encryption_accepts_plain: bool


@dataclass(frozen=True)
class MemoryStoreConfig(MemoryOptions, MemoryMessagesConfig):
    """The configuration of a working memory in this process; see its base classes."""


@dataclass(frozen=True)
class RedisConfig(MemoryOptions):
    """The configuration of a working memory in Redis; times in s.

    Args:
        url: a URL of redis-py: redis://, rediss:// (TLS) or unix://.
    """

    storage: ClassVar[str] = "redis"
    schemes: ClassVar[tuple[str, ...]] = ("redis", "rediss", "unix")
    has_driver_options: ClassVar[bool] = True

    url: str = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_redis_url(self.url)

    @classmethod
    def from_url(cls, url: str) -> RedisConfig:
        """Read a URL such as `redis://[[user]:password@]host[:port][/database]`."""
        return cls(url=url)


@dataclass(frozen=True)
class PostgresMemoryConfig(MemoryOptions, PostgresConfig):
    """The configuration of a working memory in PostgreSQL; see its base classes."""


@dataclass(frozen=True)
class SQLiteMemoryConfig(MemoryOptions, SQLiteConfig):
    """The configuration of a working memory in SQLite; see its base classes."""


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
        raise InvalidAddressError(
            "url has an invalid host, port or database number: write redis://USER:PASSWORD@HOST:PORT/N"
            " with special characters of the password percent-encoded"
        )
