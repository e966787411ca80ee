"""The configurations of message stores."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self
from urllib.parse import unquote

from jazzmine.config.base import BackendConfig, path_of, require_text
from jazzmine.errors import ConfigurationError, InvalidAddressError


@dataclass(frozen=True)
class FileConfig(BackendConfig):
    """The configuration of a store in one file.

    Args:
        path: the file.
    """

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.path == ":memory:":
            raise ConfigurationError(
                "path is that of a file; for a store in the process, take memory:"
            )
        # A relative path belongs to the folder at the time of opening, in forked processes too.
        object.__setattr__(self, "path", os.path.abspath(self.path))

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Read `SCHEME:PATH`; `%3F` is a "?" in the path."""
        return cls(path=unquote(path_of(url)))


@dataclass(frozen=True)
class JSONStoreConfig(FileConfig):
    """The configuration of a message store in one JSON file.

    Args:
        path: the file.
        fsync: whether a write waits for the disk.
        lock_timeout: how long a call waits for other processes, in s.
        search: as in `SQLiteConfig`.
    """

    storage: ClassVar[str] = "json"
    schemes: ClassVar[tuple[str, ...]] = ("json",)
    suffixes: ClassVar[tuple[str, ...]] = (".json",)

    path: str | os.PathLike[str] = "messages.json"
    fsync: bool = True
    lock_timeout: float = 30.0
    search: bool | str = False


@dataclass(frozen=True)
class MemoryMessagesConfig(BackendConfig):
    """The configuration of a message store in the memory of the process.

    Args:
        search: as in `SQLiteConfig`.
    """

    storage: ClassVar[str] = "memory"
    schemes: ClassVar[tuple[str, ...]] = ("memory",)

    search: bool | str = False


@dataclass(frozen=True)
class SQLiteConfig(FileConfig):
    """The configuration of a message store in an SQLite database.

    Args:
        path: the file of the database.
        timeout: how long a call waits for other processes, in s.
        synchronous: "full", or "normal" for writes that do not wait for the disk.
        search: True or a language such as "english": a new store gets a search index, with the
            stems of the language. An existing store keeps its index.
    """

    storage: ClassVar[str] = "sqlite"
    schemes: ClassVar[tuple[str, ...]] = ("sqlite",)
    suffixes: ClassVar[tuple[str, ...]] = (".db", ".sqlite", ".sqlite3")

    path: str | os.PathLike[str] = "messages.db"
    timeout: float = 30.0
    synchronous: str = "full"
    search: bool | str = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.synchronous not in ("full", "normal"):
            raise ConfigurationError('synchronous must be "full" or "normal"')


@dataclass(frozen=True)
class MongoDBConfig(BackendConfig):
    """The configuration of a message store in a MongoDB database.

    Args:
        timeout: the longest time that a call takes, in s.
        migration_timeout: the longest time for creating indexes when a store is opened, in s.
        search: as in `SQLiteConfig`.
    """

    storage: ClassVar[str] = "mongodb"
    schemes: ClassVar[tuple[str, ...]] = ("mongodb", "mongodb+srv")
    has_driver_options: ClassVar[bool] = True

    uri: str = field(repr=False)
    db: str = "chatbot"
    timeout: float = 30.0
    migration_timeout: float = 3600.0
    search: bool | str = False

    def __post_init__(self) -> None:
        super().__post_init__()
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
        if not name and uri.partition("://")[2]:
            raise InvalidAddressError(
                f"the URL names no database; write {scheme.lower()}://HOST/DB, with the options"
                " after it, and special characters in the user and password percent-encoded"
            )
        return cls(uri=uri, db=name or "chatbot")

    @staticmethod
    def _path(uri: str) -> str:
        return uri.partition("://")[2].partition("?")[0].partition("/")[2]


@dataclass(frozen=True)
class PostgresConfig(BackendConfig):
    """The configuration of a message store in PostgreSQL.

    Args:
        dsn: a libpq connection string: a URL or `key=value` pairs.
        pool_min, pool_max: the smallest and the largest number of connections in the pool.
        schema: the schema of the tables; it is created if it does not exist. None is the first
            schema of the role's search path.
        prepare: whether statements are prepared; False for PgBouncer in transaction mode.
        timeout: the longest time that a call takes, in s.
        migration_timeout: the longest time for changing the schema, in s.
        search: as in `SQLiteConfig`.
        pool: the application's pool of connections, which stays open; None for a pool of the store.
    """

    storage: ClassVar[str] = "postgres"
    schemes: ClassVar[tuple[str, ...]] = ("postgresql", "postgres")
    has_driver_options: ClassVar[bool] = True

    dsn: str = field(repr=False)
    pool_min: int = 2
    pool_max: int = 10
    schema: str | None = None
    prepare: bool = True
    timeout: float = 30.0
    migration_timeout: float = 3600.0
    search: bool | str = False
    pool: Any = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.pool_min <= self.pool_max or not self.pool_max:
            raise ConfigurationError(
                "pool_min must be 0 or more, and pool_max 1 or more and not less than pool_min:"
                f" {self.pool_min}, {self.pool_max}"
            )
        if self.schema is None:
            return
        require_text("schema", self.schema)
        if set(self.schema) & set("\"'$%") or len(self.schema.encode(errors="replace")) > 63:
            raise ConfigurationError(
                "schema must be at most 63 bytes without quotes, dollar and per cent signs"
            )

    @classmethod
    def from_url(cls, url: str) -> PostgresConfig:
        """Read a libpq URL; the other options have their defaults."""
        scheme, _, rest = url.partition(":")
        if not rest.startswith("//"):
            raise InvalidAddressError("the URL of a PostgreSQL database begins postgresql://")
        return cls(dsn=f"{scheme.lower()}:{rest}")
