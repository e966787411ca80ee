"""The statements of long-term memory, their parameters and their rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from jazzmine.backends.postgres.pages import same_values
from jazzmine.backends.postgres.text import from_json_text, from_text, json_text, to_text
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
)
from jazzmine.records.log import ANY
from jazzmine.records.types import MAX_INT

# An array of bytes is sent in binary, "b": some settings of a server change what its text means.
CHANGE = """
SELECT $schema.jazzmine_change_items(
    %(changes)s::json, %(are_any)s::boolean, %(vectors)b::bytea[], %(contents)b::bytea[])"""
RESTORE = """
SELECT $schema.jazzmine_restore_items(
    %(changes)s::json, %(last)s::bigint, %(vectors)b::bytea[], %(contents)b::bytea[])"""

# Not those that have another revision by now.
RENEW = """
UPDATE $schema.memory_items AS stored SET expires_at = given.expires_at
FROM unnest(%(paths)s::text[], %(revisions)s::bigint[], %(times)s::bigint[])
    AS given (path, revision, expires_at)
WHERE stored.path = given.path AND stored.revision = given.revision
    AND coalesce(stored.expires_at > extract(epoch FROM clock_timestamp()) * 1000, true)
RETURNING true
"""
# One that another call has changed meanwhile is found by the next call, if it is the user's still.
ERASE = """
DELETE FROM $schema.memory_items WHERE user_id = %(user)s AND path = ANY(ARRAY(
    SELECT path FROM $schema.memory_items WHERE user_id = %(user)s ORDER BY path
    LIMIT %(limit)s::bigint))
RETURNING true
"""
MOVE_USER = """
UPDATE $schema.memory_items SET user_id = %(new)s WHERE user_id = %(old)s RETURNING true"""
PRUNE = """
DELETE FROM $schema.memory_items WHERE path = ANY(ARRAY(
    SELECT path FROM $schema.memory_items
    WHERE expires_at <= (extract(epoch FROM statement_timestamp()) * 1000)::bigint
        AND (%(user)s::text IS NULL OR user_id = %(user)s)
    ORDER BY expires_at LIMIT %(limit)s::bigint FOR UPDATE SKIP LOCKED))
RETURNING true
"""

_TYPES = {"value": "jsonb", "data": "bytea", "vector": "bytea"}

_PARTS = {
    "items": "value::text, data",
    "values": "value::text, NULL::bytea",
    "vectors": "'{}', vector",
    "all": "value::text, data",
}
_ROW = "path, {}, user_id, source_message_id, created_at, updated_at, expires_at, revision"
# The start of the statement: a condition that is the same for all rows can use an index.
_NOW = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"
_LIVE_AT = "(expires_at IS NULL OR expires_at > {})"
_LIVE = _LIVE_AT.format(_NOW)

GET = f"""
SELECT {_ROW.format(_PARTS["items"])} FROM $schema.memory_items
WHERE path = ANY(%(paths)s::text[]) AND {_LIVE}
"""
_OF_USER = "user_id = %(user)s::text"

_WHERE = "%(where)s::jsonb"
_HAS_VALUES = f"value @> {_WHERE} AND {same_values('memory_items.value', _WHERE)}"

_NAMESPACE = "substr(path, 1, strpos(path, chr(1) || chr(1)))"

# Each step finds the first item after all those of the namespace before, by the primary key.
_NAMESPACES = f"""
WITH RECURSIVE found (namespace) AS (
    SELECT (SELECT {_NAMESPACE} FROM $schema.memory_items
        WHERE path >= %(first)s AND {{wanted}} AND {_LIVE} ORDER BY path LIMIT 1)
    UNION ALL
    SELECT (SELECT {_NAMESPACE} FROM $schema.memory_items
        WHERE path >= found.namespace || chr(2) AND {{wanted}} AND {_LIVE} ORDER BY path LIMIT 1)
    FROM found WHERE found.namespace IS NOT NULL)
SELECT namespace FROM found WHERE namespace IS NOT NULL LIMIT %(limit)s::bigint
"""


def change_parameters(changes: Sequence[ItemChange]) -> dict[str, object]:
    """Return the parameters of `CHANGE`, for changes in the order of their paths."""
    are_any = all(change.expected is ANY for change in changes)
    return {**_parameters(changes, list(map(_change, changes))), "are_any": are_any}


def restored_parameters(changes: Sequence[ItemChange]) -> dict[str, object]:
    """Return the parameters of `RESTORE`."""
    items = [{**_change(change), **change.stored()._asdict()} for change in changes]
    last = max(change.stored().revision for change in changes)
    return {**_parameters(changes, items), "last": last}


def _parameters(
    changes: Sequence[ItemChange], fields: Sequence[dict[str, object]]
) -> dict[str, object]:
    return {
        "changes": json_text([{**each, "position": n} for n, each in enumerate(fields, 1)]),
        "vectors": _array([change.vector for change in changes]),
        "contents": _array([change.item.data if change.item else None for change in changes]),
    }


def _array(values: list[bytes | None]) -> list[bytes | None] | None:
    # The driver writes one without any bytes as a text.
    return values if any(value is not None for value in values) else None


def _change(change: ItemChange) -> dict[str, object]:
    """Return a change for the server, without its bytes."""
    fields: dict[str, object] = {"path": change.path, "is_any": change.expected is ANY}
    if change.expected is not ANY:
        fields["expected"] = change.expected
    if change.item is not None:
        for name in ("value", "user_id", "source_message_id", "expires_at"):
            fields[name] = getattr(change.item, name)
    return fields


def in_order(changes: Sequence[ItemChange]) -> list[int]:
    """Return the indexes of changes in the order of their paths, as the server compares these."""
    return sorted(range(len(changes)), key=lambda index: to_text(changes[index].path))


def outcomes_of(answer: str, order: Sequence[int]) -> list[Outcome] | ItemConflict:
    """Return what became of changes, for the answer of `CHANGE` to those in an order."""
    found = json.loads(answer)
    if isinstance(found, dict):
        return ItemConflict(order[found["index"]], found["revision"])
    outcomes = dict(zip(order, found, strict=True))
    return [
        one if isinstance(one, bool) else Stored(*one)
        for one in (outcomes[index] for index in range(len(order)))
    ]


def renewal_parameters(renewals: Sequence[Renewal]) -> dict[str, object]:
    """Return the parameters of `RENEW`."""
    given = sorted(renewals, key=lambda renewal: to_text(renewal.path))
    return {
        "paths": [to_text(renewal.path) for renewal in given],
        "revisions": _numbers([renewal.revision for renewal in given]),
        "times": _numbers([renewal.expires_at for renewal in given]),
    }


def _numbers(values: Sequence[int | None]) -> str:
    """Return an array of bigint; psycopg gives all arrays of a statement the type of the first."""
    return f"{{{','.join('NULL' if value is None else str(value) for value in values)}}}"


def rewriting(version: ItemVersion) -> tuple[str, dict[str, object]]:
    """Return the statement that stores another form of an item, and its parameters."""
    parameters = {**version.parts, "path": to_text(version.path), "revision": version.revision}
    if "value" in parameters:
        parameters["value"] = json_text(parameters["value"])
    changes = ", ".join(f"{name} = %({name})s::{_TYPES[name]}" for name in version.parts)
    same = "path = %(path)s AND revision = %(revision)s"
    return f"UPDATE $schema.memory_items SET {changes} WHERE {same} RETURNING 1", parameters


def page(
    query: ItemQuery, limit: int | None, after: Cursor | None
) -> tuple[str, dict[str, object]]:
    """Return the statement for the page of items after another one, and its parameters."""
    conditions = [_LIVE if query.at is None else _LIVE_AT.format("%(at)s::bigint")]
    parameters: dict[str, object] = {"limit": MAX_INT if limit is None else limit}
    if query.at is not None:
        parameters["at"] = query.at
    if query.prefix:
        conditions.append("path >= %(prefix)s AND path < %(end)s")
        parameters.update(prefix=to_text(query.prefix), end=to_text(end_of(query.prefix)))
    for name in ("user_id", "source_message_id"):
        if (wanted := getattr(query, name)) is not None:
            conditions.append(f"{name} = %({name})s")
            parameters[name] = to_text(wanted)
    if query.where:
        conditions.append(_HAS_VALUES)
        parameters["where"] = json_text(query.where)
    if query.reads == "vectors":
        conditions.append("vector IS NOT NULL")
    if after is not None and query.order == "key":
        conditions.append("path > %(path)s")
        parameters["path"] = to_text(after.path)
    elif after is not None:
        conditions.append("(updated_at, revision) < (%(updated_at)s::bigint, %(revision)s::bigint)")
        parameters.update(updated_at=after.updated_at, revision=after.revision)
    order = "path" if query.order == "key" else "updated_at DESC, revision DESC"
    vector = ", vector" if query.reads == "all" else ""
    statement = (
        f"SELECT {_ROW.format(_PARTS[query.reads])}{vector} FROM $schema.memory_items"
        f" WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT %(limit)s::bigint"
    )
    return statement, parameters


def namespaces_page(
    prefix: str, first: str, limit: int, user_id: str | None = None
) -> tuple[str, dict[str, object]]:
    """Return the statement for the namespaces from `first` on, and its parameters."""
    parameters: dict[str, object] = {"first": to_text(first), "limit": limit}
    conditions = []
    if prefix:
        conditions.append("path < %(end)s")
        parameters["end"] = to_text(end_of(prefix))
    if user_id is not None:
        conditions.append(_OF_USER)
        parameters["user"] = to_text(user_id)
    return _NAMESPACES.format(wanted=" AND ".join(conditions or ["true"])), parameters


def item_rows(rows: Sequence[Sequence[Any]]) -> list[ItemRow]:
    """Return rows with the original texts."""
    return [
        (
            from_text(path),
            from_json_text(value),
            data,
            user_id and from_text(user_id),
            source and from_text(source),
            *rest,
        )
        for path, value, data, user_id, source, *rest in rows
    ]
