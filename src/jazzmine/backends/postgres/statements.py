"""The statements of the store, by name; `$schema` stands for the schema of the tables.

A write is one function of the schema (see `functions`), to which records are passed as JSON. A
read returns the id of each record and the record as JSON. A statement for a page contains an upper
bound of its size: without it, the server plans for a tenth of all rows, or plans each call anew.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Literal

from jazzmine.backends.columns import CONVERSATIONS, MESSAGES, TURN_TRACES, Table
from jazzmine.backends.postgres.objects import object_of
from jazzmine.records.base import FlaggedShown

__all__ = [
    "ALL_STORED",
    "APPEND",
    "CHANGE_ITEMS",
    "CONVERSATION",
    "CREATE_CONVERSATION",
    "DELETE_CONVERSATION",
    "DELETE_MESSAGE",
    "EDIT_CONVERSATION",
    "ERASE",
    "ERASE_ITEMS",
    "FLAG_MESSAGE",
    "FORK",
    "MESSAGE",
    "MESSAGES_BY_IDS",
    "MESSAGE_COUNTS",
    "NEWEST_MESSAGE",
    "OLD_CONVERSATIONS",
    "PING",
    "POP",
    "PRUNE",
    "PRUNE_ITEMS",
    "RENEW_ITEMS",
    "RESTORE_ITEMS",
    "REWIND",
    "REWRITE",
    "STORE",
    "STORE_MANY",
    "STORE_MESSAGE",
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
    "scoped",
    "seen",
    "select",
    "size",
    "traces_by_keys",
    "traces_of_agent",
]

PING = "SELECT 1"

_MAX_BIGINT = 2**63 - 1


_TABLES_OF = {"conversations": CONVERSATIONS, "messages": MESSAGES, "traces": TURN_TRACES}

# Writes


def _call(function: str, parameters: str) -> str:
    given = [name.split(":") for name in f"{parameters} {_FENCE}".split()]
    values = ", ".join(f"%({name})s::{kind}" for name, kind in given)
    return f"SELECT $schema.jazzmine_{function}({values})"


_FENCE = "lease:bigint next_lease:bigint call:bigint"

STORE_MESSAGE = _call("store_message", "owner:text message:json")
STORE = _call(
    "store",
    "owners:text[] given:text conversation:json messages:json size:bigint trace:json"
    " trace_message:text trace_owner:text",
)
STORE_MANY = _call("store_many", "conversations:json traces:json")
FLAG_MESSAGE = _call("flag_message", "id:text flagged:boolean")
DELETE_MESSAGE = _call("delete_message", "id:text")
CREATE_CONVERSATION = _call("create_conversation", "owner:text conversation:json")
EDIT_CONVERSATION = _call("edit_conversation", "owner:text title:text removed:text[] changes:jsonb")
DELETE_CONVERSATION = _call("delete_conversation", "owner:text")
APPEND = _call(
    "append",
    "owner:text ids:text[] messages:json latest:bigint is_any:boolean expected_last:text"
    " is_replacing:boolean last_kept:text trace:json",
)
POP = _call("pop", "owner:text id:text version:text")
REWIND = _call("rewind", "owner:text after:text")
FORK = _call("fork", "owner:text until:text copy_id:text copy:json salt:text")
ERASE = _call("erase", "user:text limit:bigint")
PRUNE = _call("prune", "ids:text[] before:bigint limit:bigint")

REWRITE = {
    kind: _call(f"rewrite_{table.name}", "ids:text[] versions:text[] records:json")
    for kind, table in _TABLES_OF.items()
}

CHANGE_ITEMS = _call("change_items", "changes:json are_any:boolean bytes:bytea")
ERASE_ITEMS = _call("erase_items", "user:text limit:bigint")
PRUNE_ITEMS = _call("prune_items", "limit:bigint")
RENEW_ITEMS = _call("renew_items", "renewals:json")
RESTORE_ITEMS = _call("restore_items", "items:json last:bigint bytes:bytea")


@functools.cache
def scoped(write: str) -> str:
    """Return the statement of a write for the user of the parameter `viewer`."""
    return write.replace("(", "_scoped(%(viewer)s::text, ", 1)


# Reads

# In the rest of a query, these are meant by the names of the tables.
_OF_VIEWER = f"""EXISTS (
        SELECT FROM {CONVERSATIONS.qualified} AS owners
        WHERE owners.id = records.conversation_id AND owners.user_id = %(viewer)s::text)"""
_SEEN = f"""WITH conversations AS NOT MATERIALIZED (
    SELECT *, xmin FROM {CONVERSATIONS.qualified} WHERE user_id = %(viewer)s::text
), messages AS NOT MATERIALIZED (
    SELECT *, xmin FROM {MESSAGES.qualified} AS records WHERE {_OF_VIEWER}
), turn_traces AS NOT MATERIALIZED (
    SELECT *, xmin FROM {TURN_TRACES.qualified} AS records WHERE {_OF_VIEWER}
)"""
_TABLES = re.compile(r"(?<!')\$schema\.(conversations|messages|turn_traces)\b")


@functools.lru_cache(maxsize=1024)
def seen(query: str) -> str:
    """Return a query of the records that the user of the parameter `viewer` sees."""
    return f"{_SEEN} {_TABLES.sub(lambda found: found[1], query)}"


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
) -> str:
    """Return the statement for a page of conversations, all or an owner's, newest first.

    Args:
        owner: the column of the owner, None for all.
        where: what the metadata has to contain; its values are a parameter.
        limit: the largest number of rows, None for all.
        after: whether the page begins after a conversation, which need not meet `where`.
    """
    key = ("last_updated_at", "seq")
    return _page(CONVERSATIONS, owner, key, "DESC", limit, after, _CONTAINED if where else "")


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

# The ids of the conversations to prune, each with the cursor of the next page.
OLD_CONVERSATIONS = f"""
SELECT id, last_updated_at, seq FROM {CONVERSATIONS.qualified} AS one
WHERE last_updated_at < %(before)s::bigint
    AND (last_updated_at, seq) > (%(time)s::bigint, %(seq)s::bigint)
    AND coalesce((
        SELECT timestamp FROM {MESSAGES.qualified} WHERE conversation_id = one.id
        ORDER BY timestamp DESC, seq DESC LIMIT 1) < %(before)s::bigint, true)
ORDER BY last_updated_at, seq LIMIT %(limit)s::bigint
"""


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
