"""The statements of the store, by name; `$schema` stands for the schema of the tables.

A write is one statement: a record that is stored alone is passed as typed columns, several as JSON.
A read returns the id of each record and the record as JSON; those of pages are in `pages.py`.
"""

from __future__ import annotations

from typing import Literal

from jazzmine.backends.columns import CONVERSATIONS, MESSAGES, TURN_TRACES, Table


def _object_of(table: Table) -> str:
    """Return the expression for the record, as JSON, of the row `page`.

    Without the fields that have their default it has a tenth of the length of what `row_to_json`
    writes, and so is quicker to write, send and parse.
    """
    defaults = table.defaults
    parts = []
    for number, (name, kind) in enumerate(table.types.items()):
        key = f'{"," if number else "{"}"{name}":'
        column, default = f"page.{name}", defaults[name]
        value = f"to_json({column})" if kind in ("text", "float8") else column
        if default is None and not table.is_nullable(name):
            parts.append(f"'{key}', {value}")
        elif default is None:
            # concat() leaves out what is null, as every field that may be null is by default.
            parts.append(f"'{key}' || {value}::text")
        elif kind == "jsonb":
            parts.append(f"'{key}' || nullif({value}::text, {default})")
        else:
            parts.append(f"CASE WHEN {column} <> {default} THEN '{key}' || {value}::text END")
    return f"concat({', '.join(parts)}, '}}')"


_TABLES_OF = {"conversations": CONVERSATIONS, "messages": MESSAGES, "traces": TURN_TRACES}

# Writes

_KEYS = {"conversations": "id", "messages": "id", "turn_traces": "message_id"}

# A message never moves to another conversation. A trace that replaces another one of the same
# message is stored last.
_REPLACED = {
    "conversations": "",
    "messages": ", entry = excluded.entry WHERE stored.conversation_id = excluded.conversation_id",
    "turn_traces": """,
    seq = CASE WHEN stored.id = excluded.id THEN stored.seq ELSE excluded.seq END""",
}
# A trace whose message is not stored is refused by its foreign key.
_IN_CONVERSATION = """ WHERE NOT EXISTS (
    SELECT FROM $schema.messages
    WHERE id = %(message_id)s::text AND conversation_id <> %(conversation_id)s::text)"""


def _store_one(table: Table) -> str:
    key, entry = _KEYS[table.name], {"entry": "text"} if table is MESSAGES else {}
    values = (f"%({name})s::{kind}" for name, kind in {**table.types, **entry}.items())
    return f"""
INSERT INTO {table.qualified} AS stored ({", ".join([table.columns, *entry])})
SELECT {", ".join(values)}{_IN_CONVERSATION if table is TURN_TRACES else ""}
ON CONFLICT ({key}) DO UPDATE SET {table.replacements(key)}{_REPLACED[table.name]}
RETURNING true"""


# No row: it would move to another conversation, or its message is in another.
STORE_ONE = {table.name: _store_one(table) for table in _TABLES_OF.values()}
REFUSALS = {
    "conversations": "is stored already, and hidden by a policy: it names agent",
    "messages": "is stored in another conversation than",
    "turn_traces": "is of a message that is not in conversation",
}

STORE = """
SELECT $schema.jazzmine_store(
    %(conversations)s::json, %(messages)s::json, %(turn_traces)s::json, NULL)"""


def _given(table: Table) -> str:
    """Return the rows of the parameter with the name of a table."""
    entry = ", entry text" if table is MESSAGES else ""
    return f"json_to_recordset(%({table.name})s::json) AS given ({table.definitions}{entry})"


FLAG_MESSAGE = """
UPDATE $schema.messages SET is_flagged = %(flagged)s::boolean WHERE id = %(id)s RETURNING true"""
DELETE_MESSAGE = "DELETE FROM $schema.messages WHERE id = %(id)s RETURNING true"
DELETE_CONVERSATION = "DELETE FROM $schema.conversations WHERE id = %(id)s RETURNING true"

# Most often it is stored already. One that another call has stored meanwhile is read by an update
# that changes nothing. A conversation that was made has no body.
CREATE_CONVERSATION = f"""
WITH found AS (
    SELECT page.id, {_object_of(CONVERSATIONS)} AS body
    FROM $schema.conversations AS page WHERE id = %(id)s
), made AS (
    INSERT INTO $schema.conversations AS page ({CONVERSATIONS.columns})
    SELECT {CONVERSATIONS.values} FROM {_given(CONVERSATIONS)} WHERE NOT EXISTS (SELECT FROM found)
    ON CONFLICT (id) DO UPDATE SET title = page.title
    RETURNING page.id, CASE WHEN page.xmax <> 0 THEN {_object_of(CONVERSATIONS)} END
)
SELECT * FROM found UNION ALL SELECT * FROM made
"""


def _rewrite(table: Table) -> str:
    entry = ", entry" if table is MESSAGES else ""
    return f"""
UPDATE {table.qualified} AS stored
SET {table.replacements("id")}{entry and ", entry = excluded.entry"}
FROM (SELECT {table.values}{entry} FROM {_given(table)}) AS excluded ({table.columns}{entry})
WHERE stored.id = excluded.id
    AND stored.xmin::text = (%(versions)s::text[])[array_position(%(ids)s::text[], stored.id)]
RETURNING stored.id"""


# Each record is stored only in place of the version that was read; returns the ids of those.
REWRITE = {kind: _rewrite(table) for kind, table in _TABLES_OF.items()}

APPEND = """
SELECT * FROM $schema.jazzmine_append(%(owner)s::text, %(ids)s::text[], %(messages)s::json,
    %(latest)s::bigint, %(is_any)s::boolean, %(expected_last)s::text, %(is_replacing)s::boolean,
    %(last_kept)s::text, %(turn_traces)s::json)"""
POP = "SELECT $schema.jazzmine_pop(%(owner)s::text, %(id)s::text, %(version)s::text)"
REWIND = "SELECT $schema.jazzmine_rewind(%(owner)s::text, %(after)s::text)"
FORK = """
SELECT $schema.jazzmine_fork(%(owner)s::text, %(until)s::text, %(copy)s::jsonb, %(salt)s::text)"""
ERASE = """
SELECT * FROM $schema.jazzmine_erase(%(user)s::text, %(limit)s::bigint, %(newest)s::bigint[])"""
NEWEST_NUMBERS = """
SELECT ARRAY(
    SELECT coalesce(pg_sequence_last_value(
        pg_get_serial_sequence('$schema.' || name, 'seq')::regclass), 0)
    FROM unnest('{conversations,messages,turn_traces}'::text[]) WITH ORDINALITY AS one (name, place)
    ORDER BY place)"""
PRUNE = """
SELECT * FROM $schema.jazzmine_prune(%(given)s::jsonb, %(before)s::bigint, %(limit)s::bigint)"""
MOVE_USER = """
WITH moved_conversations AS (
    UPDATE $schema.conversations SET user_id = %(new)s WHERE user_id = %(old)s RETURNING 1
), moved_messages AS (
    UPDATE $schema.messages SET user_id = %(new)s WHERE user_id = %(old)s RETURNING 1
), moved_traces AS (
    UPDATE $schema.turn_traces SET user_id = %(new)s WHERE user_id = %(old)s RETURNING 1
)
SELECT (SELECT count(*) FROM moved_conversations) + (SELECT count(*) FROM moved_messages)
    + (SELECT count(*) FROM moved_traces)"""

# Reads


def as_json(table: Table, rows: str, order: str = "", more: str = "") -> str:
    """Return the query for the ids and the records, as JSON, of rows of a table.

    The FROM clause names these rows `page`.
    """
    query = f"SELECT page.id, {_object_of(table)}{more} FROM {rows}"
    return f"{query} ORDER BY {order}" if order else query


def _one(table: Table, key: Literal["id", "message_id"]) -> str:
    return as_json(table, f"(SELECT * FROM {table.qualified} WHERE {key} = %(id)s) AS page")


CONVERSATION = _one(CONVERSATIONS, "id")
MESSAGE = _one(MESSAGES, "id")
TRACE = _one(TURN_TRACES, "id")
TRACE_OF_MESSAGE = _one(TURN_TRACES, "message_id")

MESSAGES_BY_IDS = as_json(
    MESSAGES,
    f"""unnest(%(ids)s::text[]) WITH ORDINALITY AS wanted (wanted_id, ordinal)
    JOIN {MESSAGES.qualified} AS page ON page.id = wanted_id""",
    "ordinal",
)

ALL_STORED = {
    kind: as_json(table, f"{table.qualified} AS page", "page.seq")
    for kind, table in _TABLES_OF.items()
}

# Some records, each with its version.
VERSIONS = {
    kind: as_json(
        table,
        f"(SELECT *, xmin::text AS version FROM {table.qualified} WHERE id = ANY(%(ids)s)) AS page",
        more=", page.version",
    )
    for kind, table in _TABLES_OF.items()
}

TRACES_OF_CONVERSATION = as_json(
    TURN_TRACES,
    f"(SELECT * FROM {TURN_TRACES.qualified} WHERE conversation_id = %(owner)s) AS page",
    "page.turn_number, page.seq",
)


# The newest message of a conversation, with its version.
NEWEST_MESSAGE = as_json(
    MESSAGES,
    f"""(
    SELECT *, xmin::text AS version FROM {MESSAGES.qualified} WHERE conversation_id = %(owner)s
    ORDER BY timestamp DESC, seq DESC LIMIT 1
) AS page""",
    more=", page.version",
)

# Each conversation by itself, so that the plan does not depend on how many messages they have.
MESSAGE_COUNTS = f"""
SELECT wanted.id,
    (SELECT count(*) FROM {MESSAGES.qualified} WHERE conversation_id = wanted.id)
FROM unnest(%(ids)s::text[]) AS wanted (id)
"""

# The conversations to prune, each with the cursor of the next page.
OLD_CONVERSATIONS = as_json(
    CONVERSATIONS,
    """(
    SELECT * FROM $schema.conversations AS one
    WHERE last_updated_at < %(before)s::bigint
        AND (last_updated_at, seq) > (%(time)s::bigint, %(seq)s::bigint)
        AND (%(user)s::text IS NULL OR user_id = %(user)s::text)
        AND coalesce((
            SELECT timestamp FROM $schema.messages WHERE conversation_id = one.id
            ORDER BY timestamp DESC, seq DESC LIMIT 1) < %(before)s::bigint, true)
    ORDER BY last_updated_at, seq LIMIT %(limit)s::bigint
) AS page""",
    "page.last_updated_at, page.seq",
    ", page.last_updated_at, page.seq",
)
