"""The configuration of a store: a mapping, a URL, or None (the environment or a default)."""

from __future__ import annotations

import difflib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from jazzmine.errors import ConfigurationError, InvalidAddressError

__all__ = [
    "BackendConfig",
    "JSONStoreConfig",
    "MemoryStoreConfig",
    "MongoDBConfig",
    "PostgresConfig",
    "RedisConfig",
    "message_store_config",
    "working_memory_config",
]


@dataclass(frozen=True)
class BackendConfig(ABC):
    """The options of one back end; its fields are the accepted keys besides `storage`."""

    storage: ClassVar[str]
    schemes: ClassVar[tuple[str, ...]]

    @classmethod
    @abstractmethod
    def from_url(cls, url: str) -> BackendConfig:
        """Return the configuration that a URL with one of the `schemes` describes."""


@dataclass(frozen=True)
class JSONStoreConfig(BackendConfig):
    """The configuration of a message store in one JSON file; `lock_timeout` in s."""

    storage: ClassVar[str] = "json"
    schemes: ClassVar[tuple[str, ...]] = ("json",)

    path: str | os.PathLike[str] = "messages.json"
    fsync: bool = True
    lock_timeout: float = 30.0

    def __post_init__(self) -> None:
        if isinstance(self.path, os.PathLike):
            object.__setattr__(self, "path", os.fspath(self.path))
        require_text("path", self.path)
        require_bool("fsync", self.fsync)
        require_seconds("lock_timeout", self.lock_timeout)

    @classmethod
    def from_url(cls, url: str) -> JSONStoreConfig:
        """Read `json:PATH`; a path may contain any character, so the URL has no options."""
        return cls(path=url.partition(":")[2])


@dataclass(frozen=True)
class MongoDBConfig(BackendConfig):
    """The configuration of a message store in a MongoDB database.

    Args:
        timeout: the longest time that a call takes, in s.
        migration_timeout: the longest time for creating indexes when a store is opened, in s.
    """

    storage: ClassVar[str] = "mongodb"
    schemes: ClassVar[tuple[str, ...]] = ("mongodb", "mongodb+srv")

    uri: str = field(repr=False)
    db: str = "chatbot"
    timeout: float = 30.0
    migration_timeout: float = 3600.0

    def __post_init__(self) -> None:
        require_text("uri", self.uri)
        require_text("db", self.db)
        require_seconds("timeout", self.timeout)
        require_seconds("migration_timeout", self.migration_timeout)
        if not self.uri.startswith(("mongodb://", "mongodb+srv://")):
            raise InvalidAddressError("uri must begin with mongodb:// or mongodb+srv://")
        if "@" in self._path(self.uri):
            # Otherwise part of the password would be parsed as a host, and hosts are logged.
            raise InvalidAddressError("a slash in the user or password of uri must be written %2F")
        # https://www.mongodb.com/docs/manual/reference/limits/#naming-restrictions
        if (
            any(sign in self.db for sign in '/\\. "$*<>:|?')
            or len(self.db.encode(errors="replace")) > 63
        ):
            raise ConfigurationError(
                "db must be the name of a database: at most 63 bytes,"
                ' without any space or / \\ . " $ * < > : | ?'
            )

    @classmethod
    def from_url(cls, url: str) -> MongoDBConfig:
        """Read `mongodb://HOST/DB`; the options in the URL are those of PyMongo."""
        scheme, _, rest = url.partition(":")
        uri = f"{scheme.lower()}:{rest}"
        name = unquote(cls._path(uri))
        return cls(uri=uri, db=name) if name else cls(uri=uri)

    @staticmethod
    def _path(uri: str) -> str:
        return uri.partition("://")[2].partition("?")[0].partition("/")[2]


@dataclass(frozen=True)
class PostgresConfig(BackendConfig):
    """The configuration of a message store in PostgreSQL.

    Args:
        dsn: a libpq connection string: a URL or `key=value` pairs.
        pool_min, pool_max: the smallest and the largest number of connections in the pool.
        schema: the schema of the tables; it is created if it does not exist.
        prepare: whether statements are prepared; False for PgBouncer in transaction mode.
        timeout: the longest time that a call takes, in s.
        migration_timeout: the longest time for changing the schema, in s.
    """

    storage: ClassVar[str] = "postgres"
    schemes: ClassVar[tuple[str, ...]] = ("postgresql", "postgres")

    dsn: str = field(repr=False)
    pool_min: int = 2
    pool_max: int = 10
    schema: str = "public"
    prepare: bool = True
    timeout: float = 30.0
    migration_timeout: float = 3600.0

    def __post_init__(self) -> None:
        require_text("dsn", self.dsn)
        require_number("pool_min", self.pool_min, least=0)
        require_number("pool_max", self.pool_max, least=max(1, self.pool_min))
        require_text("schema", self.schema)
        if set(self.schema) & set("\"'$%") or len(self.schema.encode(errors="replace")) > 63:
            raise ConfigurationError(
                "schema must be at most 63 bytes without quotes, dollar and per cent signs"
            )
        require_bool("prepare", self.prepare)
        require_seconds("timeout", self.timeout)
        require_seconds("migration_timeout", self.migration_timeout)

    @classmethod
    def from_url(cls, url: str) -> PostgresConfig:
        """Read a libpq URL; the other options have their defaults."""
        scheme, _, rest = url.partition(":")
        if not rest.startswith("//"):
            raise InvalidAddressError("the URL of a PostgreSQL database begins postgresql://")
        return cls(dsn=f"{scheme.lower()}:{rest}")


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
        if url.partition(":")[2]:
            raise ConfigurationError("the URL of a working memory in this process is `memory:`")
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


# The first of each is the default.
_MESSAGE_STORES: tuple[type[BackendConfig], ...] = (
    JSONStoreConfig,
    PostgresConfig,
    MongoDBConfig,
)
_WORKING_MEMORIES: tuple[type[BackendConfig], ...] = (MemoryStoreConfig, RedisConfig)


def message_store_config(config: Mapping[str, object] | str | None) -> BackendConfig:
    """Return the configuration for the argument of `MessageStore.initialize`.

    Raises:
        ConfigurationError: an unknown storage or key, or a value of a wrong type.
        InvalidAddressError: a URL whose scheme names no back end.
    """
    if config is None:
        config = os.environ.get("JAZZMINE_MESSAGE_STORE") or {}
    return _read(config, _MESSAGE_STORES)


def working_memory_config(config: Mapping[str, object] | str | None) -> BackendConfig:
    """Return the configuration for the argument of `WorkingMemoryStore.initialize`.

    Raises:
        ConfigurationError: an unknown storage or key, or a value of a wrong type.
        InvalidAddressError: a URL whose scheme names no back end.
    """
    if config is None:
        config = os.environ.get("JAZZMINE_WORKING_MEMORY") or {}
    return _read(config, _WORKING_MEMORIES)


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


def _read(
    config: Mapping[str, object] | str, kinds: tuple[type[BackendConfig], ...]
) -> BackendConfig:
    if isinstance(config, str):
        return _read_url(config, kinds)
    if isinstance(config, Mapping):
        return _read_mapping(config, kinds)
    raise ConfigurationError(
        f"config must be a mapping, a URL or None, not a {type(config).__name__}"
    )


def _read_url(url: str, kinds: tuple[type[BackendConfig], ...]) -> BackendConfig:
    scheme = url.partition(":")[0].lower()
    for kind in kinds:
        if scheme in kind.schemes:
            return kind.from_url(url)
    # The text does not repeat the URL, which may contain a password.
    known = ", ".join(f"{scheme}:" for kind in kinds for scheme in kind.schemes)
    raise InvalidAddressError(f"the URL names no known storage; it must begin with one of {known}")


def _read_mapping(
    config: Mapping[str, object], kinds: tuple[type[BackendConfig], ...]
) -> BackendConfig:
    options = dict(config)
    storage = options.pop("storage", kinds[0].storage)
    by_name = {kind.storage: kind for kind in kinds}
    if not isinstance(storage, str):
        raise ConfigurationError(f"storage must be a string, not a {type(storage).__name__}")
    kind = by_name.get(storage.lower())
    if kind is None:
        raise ConfigurationError(f"unknown storage {storage!r}{_hint(storage, by_name)}")
    known = fields(kind)
    names = [option.name for option in known]
    for key in options:
        if key not in names:
            raise ConfigurationError(
                f"unknown key {key!r} for storage {kind.storage!r}"
                f"{_hint(str(key), ['storage', *names])}"
            )
    for option in known:
        if option.default is MISSING and option.name not in options:
            raise ConfigurationError(f"storage {kind.storage!r} needs the key {option.name!r}")
    return kind(**{str(key): value for key, value in options.items()})


def _hint(wrong: str, allowed: Iterable[str]) -> str:
    allowed = list(allowed)
    nearest = difflib.get_close_matches(wrong, allowed, n=1, cutoff=0.5)
    meant = f"; did you mean {nearest[0]!r}?" if nearest else ";"
    return f"{meant} allowed: {', '.join(allowed)}"


def require_text(key: str, value: object) -> None:
    """Raise unless the value is a string that is not empty; the error does not contain it."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{key} must be a string, not a {type(value).__name__}")
    if not value:
        raise ConfigurationError(f"{key} must not be empty")
    if "\0" in value:
        raise ConfigurationError(f"{key} must not hold U+0000")


def require_bool(key: str, value: object) -> None:
    """Raise unless the value is True or False."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{key} must be True or False, not a {type(value).__name__}")


def require_number(key: str, value: object, least: int) -> None:
    """Raise unless the value is an integer of `least` or more."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"{key} must be an integer, not a {type(value).__name__}")
    if value < least:
        raise ConfigurationError(f"{key} must be {least} or more, not {value}")


def require_seconds(key: str, value: object) -> None:
    """Raise unless the value is a positive, finite number (of seconds)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigurationError(f"{key} must be a number of seconds, not a {type(value).__name__}")
    if not 0 < value < float("inf"):
        raise ConfigurationError(f"{key} must be more than 0 s, not {value}")
