"""The statements of the store, by name; `$schema` stands for the schema of the tables.

A write is one statement: a record that is stored alone is passed as typed columns, several as JSON.
A read returns the id of each record and the record as JSON. A statement for a page contains an
upper bound of its size: without it, the server plans for a tenth of all rows, or plans each call
anew.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Literal

from jazzmine.backends.columns import CONVERSATIONS, MESSAGES, TURN_TRACES, Table
from jazzmine.backends.postgres.objects import object_of
from jazzmine.records.base import FlaggedShown

__all__ = [
    "ALL_STORED",
    "APPEND",
    "CONVERSATION",
    "CREATE_CONVERSATION",
    "DELETE_CONVERSATION",
    "DELETE_MESSAGE",
    "ERASE",
    "FLAG_MESSAGE",
    "FORK",
    "MESSAGE",
    "MESSAGES_BY_IDS",
    "MESSAGE_COUNTS",
    "MOVE_USER",
    "NEWEST_MESSAGE",
    "NEWEST_NUMBERS",
    "OLD_CONVERSATIONS",
    "PING",
    "POP",
    "PRUNE",
    "REFUSALS",
    "REWIND",
    "REWRITE",
    "STORE",
    "STORE_ONE",
    "TRACE",
    "TRACES_OF_CONVERSATION",
    "TRACE_OF_MESSAGE",
    "VERSIONS",
    "as_json",
    "bounded",
    "conversations_page",
    "messages_page",
    "newest",
    "next_messages",
    "select",
    "size",
    "traces_by_keys",
    "traces_of_agent",
]

PING = "SELECT 1"

_MAX_BIGINT = 2**63 - 1


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
_CONDITIONS = {
    "turn_traces": """ WHERE NOT EXISTS (
    SELECT FROM $schema.messages
    WHERE id = %(message_id)s::text AND conversation_id <> %(conversation_id)s::text)""",
}


def _store_one(table: Table) -> str:
    key, entry = _KEYS[table.name], {"entry": "text"} if table is MESSAGES else {}
    values = (f"%({name})s::{kind}" for name, kind in {**table.types, **entry}.items())
    return f"""
INSERT INTO {table.qualified} AS stored ({", ".join([table.columns, *entry])})
SELECT {", ".join(values)}{_CONDITIONS.get(table.name, "")}
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
SELECT $schema.jazzmine_store(%(conversations)s::json, %(messages)s::json, %(turn_traces)s::json)"""


def _given(table: Table) -> str:
    """Return the rows of the parameter with the name of a table."""
    entry = ", entry text" if table is MESSAGES else ""
    return f"json_to_recordset(%({table.name})s::json) AS given ({table.definitions}{entry})"


FLAG_MESSAGE = """
UPDATE $schema.messages SET is_flagged = %(flagged)s::boolean WHERE id = %(id)s RETURNING true"""
DELETE_MESSAGE = "DELETE FROM $schema.messages WHERE id = %(id)s RETURNING true"
DELETE_CONVERSATION = "DELETE FROM $schema.conversations WHERE id = %(id)s RETURNING true"

# Most often it is stored already. One that another call has stored meanwhile is neither found nor
# made: the next attempt finds it.
CREATE_CONVERSATION = f"""
WITH found AS (
    SELECT page.id, {object_of(CONVERSATIONS, "page.")} AS body
    FROM $schema.conversations AS page WHERE id = %(id)s
), made AS (
    INSERT INTO $schema.conversations ({CONVERSATIONS.columns})
    SELECT {CONVERSATIONS.values} FROM {_given(CONVERSATIONS)} WHERE NOT EXISTS (SELECT FROM found)
    ON CONFLICT (id) DO NOTHING RETURNING id
)
SELECT id, body FROM found UNION ALL SELECT id, NULL FROM made
"""


def _rewrite(table: Table) -> str:
    entry = ", entry" if table is MESSAGES else ""
    replaced = ", entry = excluded.entry" if table is MESSAGES else ""
    return f"""
UPDATE {table.qualified} AS stored SET {table.replacements("id")}{replaced}
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
    """Return the query for the ids and the records, as JSON, of the rows of another query.

    Args:
        table: the table of the rows.
        rows: the FROM clause, in which they are named `page`.
        order: the ORDER BY clause.
        more: further columns.
    """
    query = f"SELECT page.id, {object_of(table, 'page.')}{more} FROM {rows}"
    return f"{query} ORDER BY {order}" if order else query


def bounded(query: str, limit: int | None, offset: int = 0) -> str:
    """Return a query limited by its parameters `limit` and `offset`, and to `limit` rows.

    Args:
        query: a query with ORDER BY and without LIMIT.
        limit: the largest number of rows, None for all.
        offset: the number of rows to skip.
    """
    if limit is None:
        return query
    rest = "LIMIT %(limit)s OFFSET %(offset)s" if offset else "LIMIT %(limit)s"
    return f"SELECT * FROM ({query} LIMIT {size(limit + offset)}) AS bounded {rest}"


def size(limit: int) -> int:
    """Return the upper bound of a limit in the text of a statement: a power of two."""
    return min(1 << max(0, limit - 1).bit_length(), _MAX_BIGINT)


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


def select(table: Table, condition: str, order: str) -> str:
    """Return the query for the rows of a table that meet a condition, each with its `seq`."""
    return f"""
    SELECT {table.columns}, seq FROM {table.qualified}
    WHERE {condition}
    ORDER BY {order}"""


@functools.lru_cache(maxsize=1024)
def next_messages(limit: int) -> str:
    """Return the statement for the messages after a `timestamp` and a `seq`, oldest first."""
    condition = "conversation_id = %(owner)s AND (timestamp, seq) > (%(timestamp)s, %(seq)s)"
    newer = bounded(select(MESSAGES, condition, "timestamp, seq"), limit)
    order = "page.timestamp, page.seq"
    return as_json(MESSAGES, f"({newer}) AS page", order, f", {order}")


def conversations_page(
    owner: Literal["user_id", "agent_id"] | None,
    where: Mapping[str, object],
    limit: int | None,
    after: bool,
    of_user: bool = False,
) -> str:
    """Return the statement for a page of conversations, all or an owner's, newest first.

    Args:
        owner: the column of the owner, None for all.
        where: what the metadata has to contain; its values are a parameter.
        limit: the largest number of rows, None for all.
        after: whether the page begins after a conversation, which need not meet `where`.
        of_user: whether they are those of the parameter `user_id` alone.
    """
    key = ("last_updated_at", "seq")
    condition = (_OF_USER if of_user else "") + (_CONTAINED if where else "")
    return _page(CONVERSATIONS, owner, key, "DESC", limit, after, condition)


_OF_USER = " AND user_id = %(user_id)s"


# Containment, for which there is an index, is not enough: {"a": {"b": 1}} contains {"a": {}}.
_CONTAINED = """ AND metadata @> %(where)s::jsonb AND NOT EXISTS (
        SELECT FROM jsonb_each(%(where)s::jsonb) AS field
        WHERE metadata -> field.key IS DISTINCT FROM field.value)"""


def messages_page(
    owner: Literal["conversation_id", "user_id"], limit: int | None, after: bool
) -> str:
    """Return the statement for a page of messages, oldest first."""
    return _page(MESSAGES, owner, ("timestamp", "seq"), "ASC", limit, after)


@functools.lru_cache(maxsize=1024)
def _page(
    table: Table,
    owner: str | None,
    key: tuple[str, str],
    direction: Literal["ASC", "DESC"],
    limit: int | None,
    after: bool,
    where: str = "",
) -> str:
    """Return the statement for a page of an owner's records.

    With `after`, no row means that the listing has no such record, and one row of nulls that it
    is the last record.
    """
    condition = f"{owner} = %(owner)s" if owner else "true"
    order = f"{key[0]} {direction}, {key[1]} {direction}"
    outer = f"page.{key[0]} {direction}, page.{key[1]} {direction}"
    if not after:
        first = bounded(select(table, condition + where, order), limit)
        return as_json(table, f"({first}) AS page", outer)
    sign = "<" if direction == "DESC" else ">"
    later = f"{condition} AND ({', '.join(key)}) {sign} (mark.mark_0, mark.mark_1){where}"
    return as_json(
        table,
        f"""(
    SELECT {key[0]} AS mark_0, {key[1]} AS mark_1 FROM {table.qualified}
    WHERE id = %(after)s AND {condition}
) AS mark LEFT JOIN LATERAL ({bounded(select(table, later, order), limit)}) AS page ON true""",
        outer,
    )


@functools.lru_cache(maxsize=1024)
def traces_of_agent(limit: int, offset: int, of_user: bool = False) -> str:
    """Return the statement for an agent's traces, perhaps of one user, newest first.

    The skipped traces are counted in the index, and not read.
    """
    condition = "agent_id = %(owner)s" + (_OF_USER if of_user else "")
    order = "started_at_ms DESC, seq DESC"
    if not offset:
        page = bounded(select(TURN_TRACES, condition, order), limit)
    else:
        keys = f"""
        SELECT started_at_ms, seq FROM {TURN_TRACES.qualified}
        WHERE {condition} ORDER BY {order}"""
        page = traces_by_keys(f"({bounded(keys, limit, offset)}) AS chosen")
    return as_json(TURN_TRACES, f"({page}) AS page", "page.started_at_ms DESC, page.seq DESC")


def traces_by_keys(chosen: str) -> str:
    """Return the query for the traces of a page whose keys are known.

    Args:
        chosen: the FROM clause, which has the columns `started_at_ms` and `seq`.
    """
    # LIMIT makes the planner look each of them up in the index, whatever its statistics are.
    return f"""
    SELECT traces.* FROM {chosen} CROSS JOIN LATERAL (
        SELECT * FROM {TURN_TRACES.qualified} AS one
        WHERE one.started_at_ms = chosen.started_at_ms AND one.seq = chosen.seq
        LIMIT 1
    ) AS traces"""


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


# The messages that are not flagged have an index, and the flagged ones of an assistant.
_UNFLAGGED = "NOT is_flagged"
_FLAGGED_CALLS = "is_flagged AND role IN ('assistant', 'colleague_assistant')"
_ORDER = "timestamp DESC, seq DESC"


_SHOWN: dict[FlaggedShown, tuple[str, ...]] = {
    "none": (_UNFLAGGED,),
    "calls": (_UNFLAGGED, _FLAGGED_CALLS),
    "all": ("true",),
}


def _newest(condition: str, limit: int, flagged: FlaggedShown) -> str:
    pages = [
        bounded(select(MESSAGES, f"{condition} AND {kind}", _ORDER), limit)
        for kind in _SHOWN[flagged]
    ]
    if len(pages) == 1:
        return pages[0]
    both = " UNION ALL ".join(f"({page})" for page in pages)
    return bounded(f"SELECT * FROM ({both}) AS pages ORDER BY {_ORDER}", limit)


@functools.lru_cache(maxsize=1024)
def newest(limit: int, flagged: FlaggedShown, after: bool) -> str:
    """Return the statement for a page of a conversation's newest messages, newest first.

    With `after`, its rows are as those of other pages.

    Args:
        limit: the largest number of rows.
        flagged: which flagged messages are in the page, too.
        after: whether the page begins after a message.
    """
    outer = "page.timestamp DESC, page.seq DESC"
    condition = "conversation_id = %(owner)s"
    if not after:
        return as_json(MESSAGES, f"({_newest(condition, limit, flagged)}) AS page", outer)
    older = f"{condition} AND (timestamp, seq) < (mark.mark_0, mark.mark_1)"
    return as_json(
        MESSAGES,
        f"""(
    SELECT timestamp AS mark_0, seq AS mark_1 FROM {MESSAGES.qualified}
    WHERE id = %(after)s AND {condition}
) AS mark LEFT JOIN LATERAL ({_newest(older, limit, flagged)}) AS page ON true""",
        outer,
    )
