"""The items of a long-term memory in SQLite: their tables, queries and changes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from time import time_ns
from typing import Any

from pydantic_core import to_json

from jazzmine.backends.sqlite.migrations import Component
from jazzmine.backends.sqlite.queries import limit_of
from jazzmine.records.item_paths import end_of
from jazzmine.records.item_rows import (
    Cursor,
    ItemChange,
    ItemConflict,
    ItemQuery,
    ItemRow,
    ItemVersion,
    Outcome,
    Renewal,
    Stored,
    is_expected,
)

_VIEW = """
SELECT replace(substr(path, 1, instr(path, char(1, 1)) - 1), char(1), '/') AS namespace,
    substr(path, instr(path, char(1, 1)) + 2) AS key, value, data, user_id, source_message_id,
    created_at, updated_at, expires_at, revision
FROM stored_items
"""

ITEM_TABLES = Component("items", {"memory_items": _VIEW})

# SQLite takes 32,766 parameters.
_PATHS_AT_ONCE = 30_000

_PARTS = {
    "items": "value, data",
    "values": "value, NULL",
    "vectors": "'{}', vector",
    "all": "value, data",
}
_ROW = "path, {}, user_id, source_message_id, created_at, updated_at, expires_at, revision"
_LIVE = "(expires_at IS NULL OR expires_at > :now)"

# Without a user, all of them.
_OF_USER = "(:user IS NULL OR user_id = :user)"

_GET = f"""
SELECT {_ROW.format(_PARTS["items"])} FROM stored_items
WHERE path IN ({{}}) AND {_LIVE}
"""
_FIND = f"""
SELECT revision, created_at FROM stored_items
WHERE path = :path AND {_LIVE}
"""
_NEXT_REVISION = "UPDATE item_revisions SET last = last + 1 RETURNING last"
_HIGHER_REVISIONS = "UPDATE item_revisions SET last = max(last, ?)"
_PUT = """
INSERT OR REPLACE INTO stored_items (path, user_id, source_message_id, created_at, updated_at,
    expires_at, revision, value, vector, data)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_RENEW = f"""
UPDATE stored_items SET expires_at = :expires_at
WHERE path = :path AND revision = :revision AND {_LIVE}
"""
_DELETE = "DELETE FROM stored_items WHERE path = ?"

# Each step finds the first item after all those of the namespace before, by the primary key.
_NAMESPACES = f"""
WITH RECURSIVE found (namespace) AS (
    SELECT (SELECT substr(path, 1, instr(path, char(1, 1))) FROM stored_items
        WHERE path >= :first AND {{below}} AND {_LIVE} AND {_OF_USER}
        ORDER BY path LIMIT 1)
    UNION ALL
    SELECT (SELECT substr(path, 1, instr(path, char(1, 1))) FROM stored_items
        WHERE path >= found.namespace || char(2) AND {{below}} AND {_LIVE} AND {_OF_USER}
        ORDER BY path LIMIT 1)
    FROM found WHERE found.namespace IS NOT NULL
    LIMIT :limit)
SELECT namespace FROM found WHERE namespace IS NOT NULL
"""

_MOVE_USER = "UPDATE stored_items SET user_id = ? WHERE user_id = ?"
_ERASE = """
DELETE FROM stored_items
WHERE path IN (SELECT path FROM stored_items WHERE user_id = ? ORDER BY path LIMIT ?)
"""
_PRUNE = f"""
DELETE FROM stored_items WHERE path IN (
    SELECT path FROM stored_items WHERE expires_at <= :now AND {_OF_USER}
    ORDER BY expires_at LIMIT :limit)
"""


def get(connection: sqlite3.Connection, paths: Sequence[str]) -> list[ItemRow]:
    """Return the rows at some paths, each of which is there once."""
    rows: list[ItemRow] = []
    now = _now()
    for first in range(0, len(paths), _PATHS_AT_ONCE):
        some = paths[first : first + _PATHS_AT_ONCE]
        names = {f"p{index}": path for index, path in enumerate(some)}
        statement = _GET.format(", ".join(f":{name}" for name in names))
        rows += connection.execute(statement, {**names, "now": now})
    return rows


def apply(
    connection: sqlite3.Connection, changes: Sequence[ItemChange]
) -> list[Outcome] | ItemConflict:
    """Make the changes, unless a path has another revision than its change expects."""
    now = _now()
    found: list[Any] = []
    for index, change in enumerate(changes):
        row = connection.execute(_FIND, {"path": change.path, "now": now}).fetchone()
        if not is_expected(change.expected, revision := row and row[0]):
            return ItemConflict(index, revision)
        found.append(row)
    return [
        _put(connection, change, row[1] if row else now, now)
        if change.item is not None
        else connection.execute(_DELETE, [change.path]).rowcount > 0 and row is not None
        for change, row in zip(changes, found, strict=True)
    ]


def _put(connection: sqlite3.Connection, change: ItemChange, created_at: int, now: int) -> Stored:
    # Reading all rows of RETURNING ends the statement.
    [(revision,)] = connection.execute(_NEXT_REVISION).fetchall()
    stored = Stored(revision, created_at, now)
    _store(connection, change, stored)
    return stored


def _store(connection: sqlite3.Connection, change: ItemChange, stored: Stored) -> None:
    item = change.item
    assert item is not None
    parameters = (
        change.path,
        item.user_id,
        item.source_message_id,
        stored.created_at,
        stored.updated_at,
        item.expires_at,
        stored.revision,
        change.value_json().decode(),
        change.vector,
        item.data,
    )
    connection.execute(_PUT, parameters)


def restore(connection: sqlite3.Connection, changes: Sequence[ItemChange]) -> None:
    """Store items with the times and the revisions that they have."""
    for change in changes:
        _store(connection, change, (stored := change.stored()))
        connection.execute(_HIGHER_REVISIONS, [stored.revision])


def renew(connection: sqlite3.Connection, renewals: Sequence[Renewal]) -> int:
    """Set `expires_at` of items that have their revisions; return of how many."""
    now = _now()
    return sum(
        connection.execute(_RENEW, {**renewal._asdict(), "now": now}).rowcount
        for renewal in renewals
    )


def rewrite(connection: sqlite3.Connection, versions: Sequence[ItemVersion]) -> None:
    """Store other forms of items, each where the item has the revision still."""
    for version in versions:
        parts = dict(version.parts)
        if "value" in parts:
            parts["value"] = to_json(parts["value"]).decode()
        changes = ", ".join(f"{name} = :{name}" for name in parts)
        connection.execute(
            f"UPDATE stored_items SET {changes} WHERE path = :path AND revision = :revision",
            {**parts, "path": version.path, "revision": version.revision},
        )


def page(
    connection: sqlite3.Connection, query: ItemQuery, limit: int | None, after: Cursor | None
) -> list[ItemRow]:
    """Return the rows of a page.

    Args:
        connection: where they are read.
        query: which items.
        limit: how many at most; None is no limit.
        after: the last item of the page before, or None.
    """
    conditions = [_LIVE]
    now = _now() if query.at is None else query.at
    values: dict[str, Any] = {"now": now, "limit": limit_of(limit)}
    if query.prefix:
        conditions.append("path >= :prefix AND path < :end")
        values.update(prefix=query.prefix, end=end_of(query.prefix))
    for name in ("user_id", "source_message_id"):
        if (wanted := getattr(query, name)) is not None:
            conditions.append(f"{name} = :{name}")
            values[name] = wanted
    if query.where:
        conditions.append("jazzmine_contains(value, '', :where)")
        values["where"] = json.dumps(query.where)
    if query.reads == "vectors":
        conditions.append("vector IS NOT NULL")
    if after is not None:
        is_after = "path > :path"
        if query.order == "updated":
            is_after = "(updated_at, revision) < (:updated_at, :revision)"
        conditions.append(is_after)
        values.update(after._asdict())
    order = "path" if query.order == "key" else "updated_at DESC, revision DESC"
    vector = ", vector" if query.reads == "all" else ""
    statement = (
        f"SELECT {_ROW.format(_PARTS[query.reads])}{vector} FROM stored_items"
        f" WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT :limit"
    )
    return connection.execute(statement, values).fetchall()


def namespaces(
    connection: sqlite3.Connection, prefix: str, first: str, limit: int, user_id: str | None
) -> list[str]:
    """Return namespaces that have items (of a user), in order, from `first` on."""
    parameters: dict[str, Any] = {"first": first, "limit": limit, "now": _now(), "user": user_id}
    below = "true"
    if prefix:
        below = "path < :end"
        parameters["end"] = end_of(prefix)
    rows = connection.execute(_NAMESPACES.format(below=below), parameters).fetchall()
    return [str(row[0], "utf-8") for row in rows]


def erase(connection: sqlite3.Connection, user_id: str, limit: int) -> int:
    """Delete up to `limit` items of a user, and return how many."""
    return connection.execute(_ERASE, [user_id, limit]).rowcount


def move_user(connection: sqlite3.Connection, from_id: str, to_id: str) -> int:
    """Make all items of one user another's, and return how many."""
    return connection.execute(_MOVE_USER, [to_id, from_id]).rowcount


def prune(connection: sqlite3.Connection, limit: int, user_id: str | None = None) -> int:
    """Delete up to `limit` expired items (of a user), and return how many."""
    return connection.execute(_PRUNE, {"now": _now(), "limit": limit, "user": user_id}).rowcount


def _now() -> int:
    return time_ns() // 1_000_000
