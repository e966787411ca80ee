"""Find the objects of a schema that are not ours, and the rights on ours that a role lacks.

A migration creates and drops objects by their names. An existing object with one of these names is
ours only if jazzmine 0.1 created it: that version had no table of migrations, and its tables are
identified by their columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

__all__ = [
    "COLUMNS",
    "LEGACY_COLUMNS",
    "MISSING_RIGHTS",
    "NAMES_IN_USE",
    "Column",
    "ObjectInSchema",
    "foreign",
    "names_touched",
]


class ObjectInSchema(NamedTuple):
    """A table, an index, a type or another object with a name in a schema.

    Args:
        name: without the schema.
        kind: "table", "index" and so on.
        table: the table of an index.
    """

    name: str
    kind: str
    table: str | None


class Column(NamedTuple):
    """A column of a table."""

    table: str
    name: str
    type: str


NAMES_IN_USE = """
SELECT relation.relname,
    CASE relation.relkind
        WHEN 'r' THEN 'table' WHEN 'i' THEN 'index' WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence'
        WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table'
        WHEN 'p' THEN 'partitioned table' WHEN 'I' THEN 'partitioned index' ELSE 'type'
    END,
    owner.relname
FROM pg_namespace AS schema
JOIN pg_class AS relation ON relation.relnamespace = schema.oid
LEFT JOIN pg_index AS index ON index.indexrelid = relation.oid
LEFT JOIN pg_class AS owner ON owner.oid = index.indrelid
WHERE schema.nspname = %(schema)s AND relation.relname = ANY(%(names)s::text[])
UNION ALL
SELECT type.typname, 'type', NULL
FROM pg_namespace AS schema JOIN pg_type AS type ON type.typnamespace = schema.oid
WHERE schema.nspname = %(schema)s AND type.typname = ANY(%(names)s::text[])
    AND type.typrelid = 0 AND type.typelem = 0
UNION ALL
SELECT function.proname, 'function', NULL
FROM pg_namespace AS schema JOIN pg_proc AS function ON function.pronamespace = schema.oid
WHERE schema.nspname = %(schema)s AND function.proname = ANY(%(names)s::text[])
ORDER BY 1
"""

COLUMNS = """
SELECT relation.relname, attribute.attname, format_type(attribute.atttypid, NULL)
FROM pg_namespace AS schema
JOIN pg_class AS relation ON relation.relnamespace = schema.oid
JOIN pg_attribute AS attribute ON attribute.attrelid = relation.oid
WHERE schema.nspname = %(schema)s AND relation.relname = ANY(%(names)s::text[])
    AND attribute.attnum > 0 AND NOT attribute.attisdropped
"""


def _columns(types: dict[str, str]) -> dict[str, str]:
    return {name: kind for kind, names in types.items() for name in names.split()}


LEGACY_COLUMNS = {
    "conversations": _columns(
        {"text": "id user_id agent_id title", "bigint": "created_at last_updated_at"}
    ),
    "messages": _columns(
        {
            "text": "id conversation_id user_id role original_content enhanced_message intent",
            "jsonb": "explicit_context entities invoked_flows invoked_tools reasoning_steps errors",
            "integer": "episode_id",
            "double precision": "sentiment_score",
            "boolean": "is_cancellation is_continuation is_flagged",
            "bigint": "timestamp",
        }
    ),
    "turn_traces": _columns(
        {
            "text": "id message_id conversation_id user_id agent_id detected_intent",
            "integer": "turn_number total_latency_ms total_prompt_tokens total_completion_tokens"
            " total_tokens",
            "bigint": "started_at_ms ended_at_ms",
            "double precision": "sentiment_score",
            "boolean": "is_continuation is_cancellation",
            "jsonb": "llm_calls task_emissions tool_traces slot_events confirmation_events"
            " flow_events reasoning_steps detected_entities errors",
        }
    ),
}
"""The columns that each table of jazzmine 0.1 has, and their types."""

_ADDED_COLUMNS = {"metadata", "seq"}
_VERSION_COLUMNS = {"version", "name", "applied_at"}

_MADE = re.compile(
    r"^CREATE (?:UNLOGGED )?(?:UNIQUE )?(?:TABLE|INDEX|FUNCTION|VIEW|SEQUENCE)"
    r"(?: IF NOT EXISTS)? (?:\$schema\.)?(\w+)",
    re.MULTILINE,
)
_DROPPED = re.compile(r"^DROP \w+ IF EXISTS([^;]*);", re.MULTILINE)


def names_touched(migration: str) -> list[str]:
    """Return the names of the objects that a migration creates or drops."""
    dropped = " ".join(_DROPPED.findall(migration))
    return [*_MADE.findall(migration), *re.findall(r"\$schema\.(\w+)", dropped)]


def foreign(
    found: Iterable[ObjectInSchema], columns: Sequence[Column], version: int, versions: str
) -> Iterator[str]:
    """Yield a description of each object that the next migrations would change and is not ours.

    Args:
        found: the existing objects with a name that these migrations create or drop.
        columns: the columns of the tables among them.
        version: the version of the schema, 0 if no migration was applied.
        versions: the table of the migrations that were applied.
    """
    legacy = set() if version else {name for name in LEGACY_COLUMNS if _is_legacy(name, columns)}
    for one in found:
        ours = (
            (one.kind == "table" and one.name in legacy)
            or (one.kind == "index" and one.table in legacy)
            or (one.kind == "table" and one.name == versions and _has_versions(columns, versions))
        )
        if not ours:
            of_table = f" of the table {one.table}" if one.table else ""
            yield f"the {one.kind} {one.name}{of_table}"


def _is_legacy(table: str, columns: Sequence[Column]) -> bool:
    given = {column.name: column.type for column in columns if column.table == table}
    return LEGACY_COLUMNS[table].items() <= given.items() and not _ADDED_COLUMNS & given.keys()


def _has_versions(columns: Sequence[Column], versions: str) -> bool:
    return {column.name for column in columns if column.table == versions} == _VERSION_COLUMNS


# Rights

# Each row has a right that the role lacks, the statement that grants it, or null if the table does
# not exist, and the name of the table or function.
MISSING_RIGHTS = """
SELECT wanted.privilege || ' on the table ' || wanted.name,
    'GRANT ' || wanted.privilege || ' ON ' || quote_ident(%(schema)s) || '.'
        || quote_ident(relation.relname) || ' TO ' || quote_ident(current_user),
    wanted.name
FROM unnest(%(tables)s::text[], %(privileges)s::text[]) AS wanted (name, privilege)
JOIN pg_namespace AS schema ON schema.nspname = %(schema)s
LEFT JOIN pg_class AS relation
    ON relation.relnamespace = schema.oid AND relation.relname = wanted.name
WHERE relation.oid IS NULL OR NOT has_table_privilege(relation.oid, wanted.privilege)
UNION ALL
SELECT 'EXECUTE on the function ' || function.proname,
    'GRANT EXECUTE ON FUNCTION ' || function.oid::regprocedure || ' TO '
        || quote_ident(current_user),
    function.proname
FROM pg_namespace AS schema JOIN pg_proc AS function ON function.pronamespace = schema.oid
WHERE schema.nspname = %(schema)s AND function.proname = ANY(%(functions)s::text[])
    AND NOT has_function_privilege(function.oid, 'EXECUTE')
ORDER BY 1
"""
