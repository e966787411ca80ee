"""Checks of a PostgreSQL set-up: the queries, and what their results mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from jazzmine.backends.postgres.schema import (
    ITEM_TABLES,
    MAKE_VERSIONS,
    MESSAGE_TABLES,
    Component,
    function_files,
    migrations,
    quoted,
)
from jazzmine.backends.postgres.word_index import MAKE_TABLE
from jazzmine.findings import Finding, failed, fine, warning

CLOCK = """
SELECT extract(epoch FROM clock_timestamp())::float8, current_setting('transaction_read_only')::bool
"""

# The names of indexes, keys and tables, and whether each is valid.
INDEXES = """
SELECT relname, coalesce(indisvalid, true)
FROM pg_class LEFT JOIN pg_index ON indexrelid = oid
WHERE relnamespace = to_regnamespace('$schema')
UNION ALL
SELECT conname, true FROM pg_constraint WHERE connamespace = to_regnamespace('$schema')
"""

# The most connections, those that ordinary roles cannot have, and the limits of role and database.
LIMITS = """
SELECT current_setting('max_connections')::int,
    current_setting('superuser_reserved_connections')::int,
    (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
    (SELECT datconnlimit FROM pg_database WHERE datname = current_database())
"""

# Each row has a right that the role lacks, and the statement that grants it.
MISSING_RIGHTS = """
SELECT lacking, 'GRANT ' || granted || ' TO ' || quote_ident(current_user) FROM (
    SELECT 'CREATE on the database ' || name, 'CREATE ON DATABASE ' || quote_ident(name)
    FROM current_database() AS name
    WHERE to_regnamespace('$schema') IS NULL AND NOT has_database_privilege(name, 'CREATE')
    UNION ALL
    SELECT 'USAGE on the schema ' || nspname, 'USAGE ON SCHEMA ' || quote_ident(nspname)
    FROM pg_namespace WHERE nspname = %(schema)s AND NOT has_schema_privilege(oid, 'USAGE')
    UNION ALL
    SELECT privilege || ' on the table ' || relname,
        privilege || ' ON ' || quote_ident(nspname) || '.' || quote_ident(relname)
    FROM pg_namespace AS schema JOIN pg_class AS relation ON relnamespace = schema.oid
        CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS privilege
    WHERE nspname = %(schema)s AND NOT has_table_privilege(relation.oid, privilege)
        AND CASE WHEN relname = %(versions)s THEN privilege = 'SELECT'
            WHEN relname = ANY(%(tables)s::text[]) THEN relkind <> 'S' OR privilege = 'UPDATE' END
    UNION ALL
    SELECT 'EXECUTE on the function ' || proname,
        'EXECUTE ON FUNCTION ' || function.oid::regprocedure
    FROM pg_namespace AS schema JOIN pg_proc AS function ON pronamespace = schema.oid
    WHERE nspname = %(schema)s AND starts_with(proname, 'jazzmine_')
        AND NOT has_function_privilege(function.oid, 'EXECUTE')
) AS rights (lacking, granted) ORDER BY lacking
"""
# The table of the search index is there only in a schema that has one.
MISSING_TABLES = """
SELECT name FROM unnest(%(tables)s::text[]) AS name
WHERE to_regclass('$schema.' || quote_ident(name)) IS NULL AND (name <> 'message_words'
    OR EXISTS (SELECT FROM $schema.$versions WHERE version = 1000))
"""

# The functions that are there, and whether each names its own schema, as none does any more after
# that was renamed.
FUNCTIONS = """
SELECT proname, strpos(prosrc, '$schema.') > 0 OR strpos(prosrc, '.') = 0
FROM pg_namespace AS schema JOIN pg_proc ON pronamespace = schema.oid
WHERE nspname = %(schema)s
"""

# Each row has a table whose sequence is behind its rows, and the statement that mends it.
_LAGGING = """
SELECT name, 'SELECT setval(' || quote_literal(sequence) || ', (SELECT max(' || field
    || ') FROM $schema.' || name || '))'
FROM numbers WHERE number > coalesce(pg_sequence_last_value(sequence), 0)
"""
# For each table the largest number that a row has, about, and the sequence of the numbers. If rows
# were copied without it, it would give numbers again. No index begins with `seq`, but the newest
# rows by their times have the largest ones, more or less.
_LAGGING_MESSAGES = f"""
WITH newest AS (
    SELECT id, seq FROM $schema.conversations ORDER BY last_updated_at DESC, seq DESC LIMIT 100
), largest (name, field, number) AS (
    SELECT 'conversations', 'seq', max(seq) FROM newest
    UNION ALL SELECT 'messages', 'seq', max(last.seq) FROM newest CROSS JOIN LATERAL (
        SELECT seq FROM $schema.messages WHERE conversation_id = newest.id
        ORDER BY timestamp DESC, seq DESC LIMIT 1) AS last
    UNION ALL SELECT 'turn_traces', 'seq', max(seq) FROM (
        SELECT seq FROM $schema.turn_traces ORDER BY started_at_ms DESC, seq DESC LIMIT 100) AS page
), numbers AS (
    SELECT *, pg_get_serial_sequence('$schema.' || name, field)::regclass AS sequence FROM largest
)
{_LAGGING}"""
_LAGGING_ITEMS = f"""
WITH numbers (name, field, number, sequence) AS (
    SELECT 'memory_items', 'revision', max(revision), '$schema.memory_item_revisions'::regclass
    FROM (SELECT revision FROM $schema.memory_items
        ORDER BY updated_at DESC, revision DESC LIMIT 100) AS newest
)
{_LAGGING}"""

LAGGING = {MESSAGE_TABLES: _LAGGING_MESSAGES, ITEM_TABLES: _LAGGING_ITEMS}

_TABLE = re.compile(r"^CREATE TABLE .*?\$schema\.(\w+) \((.*?)^\)", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"PRIMARY KEY|UNIQUE|REFERENCES .* CASCADE")
# PostgreSQL's name of a key, by the first letter of its clause, and the clause of a table.
_KEY_FORMS = {
    "P": ("{0}_pkey", "{2} ({1})"),
    "U": ("{0}_{1}_key", "{2} ({1})"),
    "R": ("{0}_{1}_fkey", "FOREIGN KEY ({1}) {2}"),
}
_CREATED = re.compile(r"^CREATE INDEX (\w+) (ON .*?);", re.MULTILINE | re.DOTALL)
_FUNCTION = re.compile(r"^CREATE OR REPLACE FUNCTION \$schema\.(\w+)\(", re.MULTILINE)
_OLDEST = 120_000


def check_version(version: int, name: str) -> Finding:
    """Return whether a server's version, 160004 for 16.4, is one that is supported."""
    if version < _OLDEST:
        return failed(f"PostgreSQL {name} is too old", "upgrade the server to 12 or newer")
    return fine(f"PostgreSQL {name}")


def check_functions(
    schema: str, component: Component, present: Iterable[tuple[str, bool]]
) -> Iterator[Finding]:
    """Yield which functions are missing, or name another schema, as after it was renamed."""
    usable = {name for name, names_schema in present if names_schema}
    needed = _FUNCTION.findall("\n".join(function_files(component)))
    wrong = [name for name in needed if name not in usable]
    if wrong:
        steps = migrations(component.folder)
        last = max(step.version for step in steps if step.name == "functions")
        yield failed(
            f"functions of schema {schema!r} are missing, or were made for another schema:"
            f" {', '.join(wrong)}",
            # The next store that is opened applies it again, and makes the functions.
            f"DELETE FROM {quoted(schema)}.{component.versions} WHERE version = {last};",
        )


def check_indexes(
    schema: str, component: Component, present: Iterable[tuple[str, bool]]
) -> Iterator[Finding]:
    """Yield which keys are missing, which indexes are missing or not valid, or that none is."""
    is_valid = dict(present)
    sql = MAKE_VERSIONS.replace("$versions", component.versions)
    sql += "\n".join(step.sql for step in migrations(component.folder))
    if component is MESSAGE_TABLES and "message_words" in is_valid:
        sql += MAKE_TABLE
    is_fine = True
    for name, create in _keys(sql):
        if name not in is_valid:
            is_fine = False
            statement = create.replace("$schema", quoted(schema))
            yield failed(f"the key {name} is missing: writes need it", statement)
    for name, definition in _CREATED.findall(sql):
        create = f"CREATE INDEX CONCURRENTLY {name} {definition};"
        create = " ".join(create.replace("$schema", quoted(schema)).split())
        if name not in is_valid:
            is_fine = False
            yield failed(f"the index {name} is missing: queries that need it are slow", create)
        elif not is_valid[name]:
            is_fine = False
            drop = f"DROP INDEX CONCURRENTLY {quoted(schema)}.{name};"
            yield failed(f"the index {name} is not valid, and is not used", f"{drop} {create}")
    if is_fine:
        yield fine("all indexes and keys are there")


def _keys(sql: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each key of the tables that statements make, and what adds the key."""
    for table, columns in _TABLE.findall(sql):
        for text in columns.split("\n"):
            for clause in _KEY.findall(text):
                name, added = (
                    form.format(table, text.split()[0], clause) for form in _KEY_FORMS[clause[0]]
                )
                yield name, f"ALTER TABLE $schema.{table} ADD {added};"


def check_pool(
    pool_max: int, server: int, reserved: int, role: int | None, database: int | None
) -> Finding:
    """Return whether server, role and database grant as many connections as a pool may open."""
    limits = [limit for limit in (role, database) if limit is not None and limit >= 0]
    most = min([server - reserved, *limits])
    if pool_max > most:
        return failed(
            f"pool_max is {pool_max}, and the server grants {most} connections in all",
            f"set pool_max to less than {most} divided by the number of processes, or raise the"
            " server's max_connections",
        )
    if pool_max * 2 > most:
        return warning(
            f"one process may take {pool_max} of the {most} connections that the server grants",
            "set pool_max so that all processes together stay below that",
        )
    return fine(f"one process takes up to {pool_max} of {most} connections")
