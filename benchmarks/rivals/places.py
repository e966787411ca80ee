"""Where a store keeps its data: an empty SQLite file or PostgreSQL database for each use."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import psycopg
from psycopg.conninfo import conninfo_to_dict

_numbers = itertools.count(1)


class Place(Protocol):
    """A database that one store uses."""

    address: str

    def through(self, port: int) -> str:
        """The address of the same database by way of a proxy on another port."""

    def size(self) -> int:
        """The bytes that are in use, after everything deleted is gone for good."""

    def values(self) -> Iterator[bytes]:
        """Each row of each table, as bytes in which a text can be found."""


class SQLite:
    """A file in a new folder."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / f"{next(_numbers)}.db")

    def through(self, port: int) -> str:
        raise NotImplementedError("there is no network to a file")

    def size(self) -> int:
        with sqlite3.connect(self.address, timeout=60) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        return Path(self.address).stat().st_size

    def values(self) -> Iterator[bytes]:
        connection = sqlite3.connect(self.address, timeout=60)
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        for (table,) in connection.execute(query).fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                yield b" ".join(map(_bytes, row))
        connection.close()


class PostgreSQL:
    """A new database of a server."""

    def __init__(self, dsn: str) -> None:
        name = f"rival_{next(_numbers)}"
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        self._parts = conninfo_to_dict(dsn)
        self._parts["dbname"] = name
        self.address = self.through(int(self._parts["port"] or 5432))

    def through(self, port: int) -> str:
        user, password, host, name = (
            self._parts[key] for key in ("user", "password", "host", "dbname")
        )
        return f"postgresql://{user}:{password}@{host}:{port}/{name}"

    def forget_durability(self) -> None:
        """Flush nothing of connections that are opened from now on: for data to be read only."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            name = str(self._parts["dbname"])
            connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off".encode())

    def size(self) -> int:
        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute("VACUUM FULL")
            query = f"SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class WHERE {_OURS}"
            [size] = connection.execute(query.encode()).fetchone() or (0,)
            return int(size)

    def values(self) -> Iterator[bytes]:
        with psycopg.connect(self.address, autocommit=True) as connection:
            query = f"SELECT oid::regclass::text FROM pg_class WHERE {_OURS}"
            for (table,) in connection.execute(query.encode()).fetchall():
                for row in connection.execute(f"SELECT * FROM {table}".encode()):
                    yield b" ".join(map(_bytes, row))


_OURS = (
    "relkind = 'r' AND relnamespace NOT IN"
    " (SELECT oid FROM pg_namespace WHERE nspname ~ '^(pg_|information_)')"
)


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
