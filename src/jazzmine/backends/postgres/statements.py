"""The statements of the store, by name; `$schema` stands for the schema of the tables.

Writes pass records as one JSON parameter, which the server splits into columns. Reads return two
columns: a record as JSON, and its `seq`. A statement for a page contains an upper bound of its
size: without it, the server plans for a tenth of all rows, or plans each call anew.

All statements lock rows in one order: conversations, messages, traces, and each of them by id.
Otherwise two statements could deadlock. A write of messages locks their conversations FOR KEY
SHARE, so that it waits for those of `log_statements`, and they for it. What locks several rows is
a function of the schema, see `migrations/0006_conversation_log.sql`.
"""

from __future__ import annotations

import functools
from typing import Literal

from jazzmine.backends.columns import CONVERSATIONS, MESSAGES, TURN_TRACES, Table

__all__ = [
    "ALL_STORED",
    "CONVERSATION",
    "DELETE_CONVERSATION",
    "DELETE_MESSAGE",
    "FLAG_MESSAGE",
    "MESSAGE",
    "MESSAGES_BY_IDS",
    "PING",
    "STORE_CONVERSATION",
    "STORE_CONVERSATIONS",
    "STORE_MESSAGE",
    "STORE_MESSAGES",
    "STORE_TRACE",
    "STORE_TRACES",
    "TRACE",
    "TRACES_OF_CONVERSATION",
    "TRACE_OF_MESSAGE",
    "as_json",
    "bounded",
    "conversations_page",
    "messages_page",
    "next_messages",
    "select",
    "size",
    "store_turn",
    "traces_by_keys",
    "traces_of_agent",
]

PING = "SELECT 1"

_MAX_BIGINT = 2**63 - 1


# Writes. A record that is stored again unchanged is locked, but not written.


def _upsert(table: Table, given: str, key: str, *, condition: str = "", more: str = "") -> str:
    return f"""
INSERT INTO {table.qualified} AS stored ({table.columns})
SELECT {table.values}
FROM {given} AS given ({table.definitions})
{condition}
ON CONFLICT ({key}) DO UPDATE SET {table.replacements(key)}{more}
WHERE {table.is_changed}
"""


def _after(part: str) -> str:
    """Return a condition that is true after a part of the statement has run."""
    return f"(SELECT count(*) FROM {part}) >= 0"


def _store_conversation(condition: str = "") -> str:
    return _upsert(
        CONVERSATIONS, "json_to_record(%(conversation)s::json)", "id", condition=condition
    )


STORE_CONVERSATION = _store_conversation()

# For copies of whole stores: numbered and locked in the order given.
STORE_CONVERSATIONS = _upsert(CONVERSATIONS, "json_to_recordset(%(conversations)s::json)", "id")

_GIVEN_MESSAGES = "json_to_recordset(%(messages)s::json)"


# Without this, the foreign key locks the conversations after the messages, in any order.
_LOCK_CONVERSATIONS = """locked AS MATERIALIZED (
    SELECT $schema.jazzmine_lock_conversations(%(conversations)s::text[])
)"""


STORE_MESSAGE = f"""WITH {_LOCK_CONVERSATIONS}{
    _upsert(MESSAGES, _GIVEN_MESSAGES, "id", condition=f"WHERE {_after('locked')}")
}"""


def _store_messages(part: str) -> str:
    """Return a write of messages: numbered in the given order, inserted in the order of ids."""
    return f"""
INSERT INTO {MESSAGES.qualified} AS stored ({MESSAGES.columns}, seq)
SELECT {MESSAGES.values}, seq
FROM ROWS FROM (
    {_GIVEN_MESSAGES} AS ({MESSAGES.definitions}),
    $schema.jazzmine_message_numbers(%(count)s::integer)
) AS given ({MESSAGES.columns}, seq)
WHERE {_after(part)}
ORDER BY id COLLATE "C"
ON CONFLICT (id) DO UPDATE SET {MESSAGES.replacements("id")}
WHERE {MESSAGES.is_changed}
"""


STORE_MESSAGES = f"WITH {_LOCK_CONVERSATIONS}{_store_messages('locked')}"


def _store_trace(condition: str = "", given: str = "json_to_record(%(trace)s::json)") -> str:
    # A trace that replaces another one of the same message is stored last; if its id belongs to
    # another message, this is a conflict.
    return _upsert(
        TURN_TRACES,
        given,
        "message_id",
        condition=condition,
        more=", seq = CASE WHEN stored.id = excluded.id THEN stored.seq ELSE excluded.seq END",
    )


STORE_TRACE = _store_trace()
STORE_TRACES = _store_trace(given="json_to_recordset(%(traces)s::json)")


@functools.cache
def store_turn(conversation: bool, messages: bool, trace: bool) -> str:
    """Return one statement that stores all of the given parts, or none.

    Each part runs after the one before, so that rows are locked in order: `conversations` are
    those before the given one, `later_conversations` those after it. Foreign keys are checked at
    the end of the statement, after all parts.
    """
    parts: list[str] = []
    done: list[str] = []
    if messages:
        parts.append(_LOCK_CONVERSATIONS)
        done.append("locked")
    if conversation:
        sql = _store_conversation(f"WHERE {_after(done[-1])}" if done else "")
        parts.append(f"stored_conversation AS ({sql} RETURNING 1)")
        done.append("stored_conversation")
    if conversation and messages:
        parts.append(f"""locked_later AS MATERIALIZED (
    SELECT $schema.jazzmine_lock_conversations(%(later_conversations)s::text[])
    WHERE {_after(done[-1])}
)""")
        done.append("locked_later")
    if messages:
        parts.append(f"stored_messages AS ({_store_messages(done[-1])} RETURNING 1)")
        done.append("stored_messages")
    if trace:
        sql = _store_trace(f"WHERE {_after(done[-1])}" if done else "")
        parts.append(f"stored_trace AS ({sql} RETURNING 1)")
        done.append("stored_trace")
    return f"WITH {', '.join(parts)} SELECT count(*) FROM {done[-1]}"


FLAG_MESSAGE = f"UPDATE {MESSAGES.qualified} SET is_flagged = %(flagged)s WHERE id = %(id)s"

# A conversation is deleted with its messages, a message with its trace.
DELETE_CONVERSATION = f"""
WITH locked AS MATERIALIZED (SELECT $schema.jazzmine_lock_to_delete(ARRAY[%(id)s::text]))
DELETE FROM {CONVERSATIONS.qualified} WHERE id = %(id)s AND {_after("locked")}
"""
DELETE_MESSAGE = f"""
WITH locked AS MATERIALIZED (
    SELECT id FROM {CONVERSATIONS.qualified}
    WHERE id = (SELECT conversation_id FROM {MESSAGES.qualified} WHERE id = %(id)s)
    FOR KEY SHARE
)
DELETE FROM {MESSAGES.qualified} WHERE id = %(id)s AND {_after("locked")}
"""


# Reads


def as_json(table: Table, rows: str, order: str = "") -> str:
    """Return the query for the rows of another query as JSON, each with its `seq`.

    Args:
        table: the table of the rows.
        rows: the FROM clause, in which the rows have the name `page`.
        order: the ORDER BY clause.
    """
    columns = ", ".join(f"page.{name}" for name in table.kind.model_fields)
    return f"""
SELECT row_to_json(record)::text, page.seq
FROM {rows} CROSS JOIN LATERAL (SELECT {columns}) AS record
{f"ORDER BY {order}" if order else ""}
"""


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
    "conversations": as_json(CONVERSATIONS, f"{CONVERSATIONS.qualified} AS page", "page.seq"),
    "messages": as_json(MESSAGES, f"{MESSAGES.qualified} AS page", "page.seq"),
    "traces": as_json(TURN_TRACES, f"{TURN_TRACES.qualified} AS page", "page.seq"),
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
    newer = select(MESSAGES, condition, "timestamp, seq")
    return as_json(MESSAGES, f"({bounded(newer, limit)}) AS page", "page.timestamp, page.seq")


def conversations_page(
    owner: Literal["user_id", "agent_id"] | None, limit: int | None, after: bool
) -> str:
    """Return the statement for a page of conversations, all or an owner's, newest first."""
    return _page(CONVERSATIONS, owner, ("last_updated_at", "seq"), "DESC", limit, after)


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
) -> str:
    """Return the statement for a page of an owner's records.

    With `after`, no row means that the listing has no such record, and one row of nulls that it
    is the last record.
    """
    condition = f"{owner} = %(owner)s" if owner else "true"
    order = f"{key[0]} {direction}, {key[1]} {direction}"
    outer = f"page.{key[0]} {direction}, page.{key[1]} {direction}"
    if not after:
        first = bounded(select(table, condition, order), limit)
        return as_json(table, f"({first}) AS page", outer)
    sign = "<" if direction == "DESC" else ">"
    later = f"{condition} AND ({', '.join(key)}) {sign} (mark.mark_0, mark.mark_1)"
    return as_json(
        table,
        f"""(
    SELECT {key[0]} AS mark_0, {key[1]} AS mark_1 FROM {table.qualified}
    WHERE id = %(after)s AND {condition}
) AS mark LEFT JOIN LATERAL ({bounded(select(table, later, order), limit)}) AS page ON true""",
        outer,
    )


@functools.lru_cache(maxsize=1024)
def traces_of_agent(limit: int, offset: int) -> str:
    """Return the statement for an agent's traces, newest first.

    The skipped traces are counted in the index, and not read.
    """
    condition, order = "agent_id = %(owner)s", "started_at_ms DESC, seq DESC"
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
