"""Put records into a back end without the library, as another program would."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import redis

from tests.behaviour.backends import Config
from tests.servers import mongodb, postgres

Raw = dict[str, Any]


def put(
    config: Config,
    conversations: list[Raw],
    messages: list[Raw] | None = None,
    traces: list[Raw] | None = None,
) -> None:
    """Replace all stored records, but not those of a JSON file: it is refused as a whole."""
    sections = {
        "conversations": conversations,
        "messages": messages or [],
        "turn_traces": traces or [],
    }
    write = {
        "postgres": _postgres,
        "mongodb": _mongodb,
        "sqlite": _sqlite,
    }
    write[str(config["storage"])](config, sections)


def everything(config: Config) -> bytes:
    """Return all that a back end holds, the library's own tables and files beside it included."""
    read = {
        "json": _json_bytes,
        "postgres": _postgres_bytes,
        "mongodb": _mongodb_bytes,
        "sqlite": _sqlite_bytes,
        "redis": _redis_bytes,
    }
    return read[str(config["storage"])](config)


def _redis_bytes(config: Config) -> bytes:
    with closing(redis.Redis.from_url(str(config["url"]))) as client:
        keys = list(client.scan_iter())
        values = [
            client.hgetall(key) if client.type(key) == b"hash" else client.get(key) for key in keys
        ]
        return repr((keys, values)).encode()


def _json_bytes(config: Config) -> bytes:
    path = Path(str(config["path"]))
    return b"".join(one.read_bytes() for one in path.parent.glob(f"{path.name}*"))


def _mongodb_bytes(config: Config) -> bytes:
    database = mongodb.client(str(config["uri"]))[str(config["db"])]
    names = database.list_collection_names()
    return repr([list(database[name].find()) for name in names]).encode()


def _postgres_bytes(config: Config) -> bytes:
    schema = str(config["schema"])
    with postgres.connect(str(config["dsn"]), prepare_threshold=None) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
        names = [name for (name,) in connection.execute(query, [schema])]
        found: list[object] = []
        for output in ("escape", "hex"):  # text is found in the one, and numbers in the other
            connection.execute("SELECT set_config('bytea_output', %s, false)", [output])
            for name in names:
                rows = f'SELECT one::text FROM "{schema}"."{name}" AS one'.encode()
                found += connection.execute(rows).fetchall()
        return repr(found).encode()


def _mongodb(config: Config, sections: dict[str, list[Raw]]) -> None:
    database = mongodb.client(str(config["uri"]))[str(config["db"])]
    for name, records in sections.items():
        database[name].delete_many({})
        if records:
            database[name].insert_many([dict(record) for record in records])


def _postgres(config: Config, sections: dict[str, list[Raw]]) -> None:
    schema = config["schema"]
    with postgres.connect(str(config["dsn"]), prepare_threshold=None) as connection:
        connection.execute(f'DELETE FROM "{schema}".conversations'.encode())
        for name, records in sections.items():
            for record in records:
                columns = ", ".join(f'"{column}"' for column in record)
                statement = f"""
                    INSERT INTO "{schema}"."{name}" ({columns})
                    SELECT {columns}
                    FROM json_populate_record(NULL::"{schema}"."{name}", %s::json)"""
                connection.execute(statement.encode(), [json.dumps(record)])


# Columns of the tables that have other names than the fields of the records, or none.
_SQLITE_COLUMNS = {"has_errors": "errors"}


def _sqlite(config: Config, sections: dict[str, list[Raw]]) -> None:
    path = str(config["path"])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("BEGIN")
        connection.execute("DELETE FROM stored_conversations")
        for name, records in sections.items():
            found = connection.execute(f"PRAGMA table_info(stored_{name})").fetchall()
            columns = [column[1] for column in found if column[1] not in ("seq", "body")]
            for record in records:
                values = [record.get(_SQLITE_COLUMNS.get(column, column), 0) for column in columns]
                values = [bool(one) if isinstance(one, list) else one for one in values]
                connection.execute(
                    f"INSERT INTO stored_{name} ({', '.join(columns)}, body)"
                    f" VALUES ({', '.join('?' for _ in columns)}, ?)",
                    [*values, json.dumps(record)],
                )
        connection.execute("COMMIT")


def _sqlite_bytes(config: Config) -> bytes:
    path = Path(str(config["path"]))
    # Not with a connection, nor in this process: closing a file releases SQLite's locks on it.
    files = sorted(path.parent.glob(f"{path.name}*"))
    return subprocess.run(["cat", *map(str, files)], check=True, capture_output=True).stdout
