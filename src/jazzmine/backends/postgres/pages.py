"""The statements for pages of records; `$schema` stands for the schema of the tables.

Each contains its limit: with a parameter, the server would plan for a tenth of all rows, or plan
each call anew.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal

from jazzmine.backends.columns import CONVERSATIONS, MESSAGES, Table
from jazzmine.backends.postgres.statements import as_json
from jazzmine.records.base import FlaggedShown
from jazzmine.records.types import MAX_INT

Direction = Literal["ASC", "DESC"]

# The column of a table, before `seq`, that lists are in the order of.
_TIMES = {
    "conversations": "last_updated_at",
    "messages": "timestamp",
    "turn_traces": "started_at_ms",
}


def select(table: Table, condition: str, direction: Direction, limit: int | None) -> str:
    """Return the query for the first rows of a table that meet a condition, each with its `seq`."""
    bound = "" if limit is None else f" LIMIT {min(limit, MAX_INT):d}"
    return f"""
    SELECT {table.columns}, seq FROM {table.qualified}
    WHERE {condition}
    ORDER BY {_order(table, direction)}{bound}"""


def _order(table: Table, direction: Direction, row: str = "") -> str:
    return f"{row}{_TIMES[table.name]} {direction}, {row}seq {direction}"


def page(
    table: Table, rows: Callable[[str], str], direction: Direction, after: bool, scope: str = "true"
) -> str:
    """Return the statement for a page of records.

    With `after`, no row means that the listing has no such record, and one row of nulls that it
    is the last record.

    Args:
        rows: the query for the rows, to whose condition its argument is added.
        after: whether the page begins after a record, the parameter `after`.
        scope: the condition that this record has to meet.
    """
    order = _order(table, direction, "page.")
    if not after:
        return as_json(table, f"({rows('')}) AS page", order)
    time, sign = _TIMES[table.name], "<" if direction == "DESC" else ">"
    later = f" AND ({time}, seq) {sign} (mark.mark_0, mark.mark_1)"
    return as_json(
        table,
        f"""(
    SELECT {time} AS mark_0, seq AS mark_1 FROM {table.qualified} WHERE id = %(after)s AND {scope}
) AS mark LEFT JOIN LATERAL ({rows(later)}) AS page ON true""",
        order,
    )


@functools.lru_cache(maxsize=1024)
def next_messages(limit: int) -> str:
    """Return the statement for the messages after a `timestamp` and a `seq`, oldest first."""
    condition = "conversation_id = %(owner)s AND (timestamp, seq) > (%(timestamp)s, %(seq)s)"
    order = _order(MESSAGES, "ASC", "page.")
    rows = f"({select(MESSAGES, condition, 'ASC', limit)}) AS page"
    return as_json(MESSAGES, rows, order, ", page.timestamp, page.seq")


def same_values(value: str, wanted: str) -> str:
    """Return the condition that an object has the fields of another one with the same values.

    Containment, for which there is an index, is not enough: {"a": {"b": 1}} contains {"a": {}}.
    """
    return f"""NOT EXISTS (
        SELECT FROM jsonb_each({wanted}) AS wanted
        WHERE {value} -> wanted.key IS DISTINCT FROM wanted.value)"""


_WHERE = "%(where)s::jsonb"
_CONTAINED = f" AND metadata @> {_WHERE} AND {same_values('metadata', _WHERE)}"


@functools.lru_cache(maxsize=1024)
def conversations_page(
    owner: Literal["user_id", "agent_id"] | None,
    limit: int | None,
    after: bool,
    where: bool = False,
    of_user: bool = False,
) -> str:
    """Return the statement for a page of conversations, all or an owner's, newest first.

    It begins after a conversation that need not meet `where`, a condition on the metadata.
    """
    scope = f"{owner} = %(owner)s" if owner else "true"
    more = (" AND user_id = %(user_id)s" if of_user else "") + (_CONTAINED if where else "")

    def rows(later: str) -> str:
        return select(CONVERSATIONS, scope + later + more, "DESC", limit)

    return page(CONVERSATIONS, rows, "DESC", after, scope)


@functools.lru_cache(maxsize=1024)
def messages_page(
    owner: Literal["conversation_id", "user_id"], limit: int | None, after: bool
) -> str:
    """Return the statement for a page of messages, oldest first."""
    scope = f"{owner} = %(owner)s"

    def rows(later: str) -> str:
        return select(MESSAGES, scope + later, "ASC", limit)

    return page(MESSAGES, rows, "ASC", after, scope)


# The messages that are not flagged have an index, and the flagged ones of an assistant.
_UNFLAGGED = "NOT is_flagged"
_FLAGGED_CALLS = "is_flagged AND role IN ('assistant', 'colleague_assistant')"
_SHOWN: dict[FlaggedShown, tuple[str, ...]] = {
    "none": (_UNFLAGGED,),
    "calls": (_UNFLAGGED, _FLAGGED_CALLS),
    "all": ("true",),
}


@functools.lru_cache(maxsize=1024)
def newest(limit: int, flagged: FlaggedShown, after: bool) -> str:
    """Return the statement for a page of a conversation's newest messages, newest first."""
    scope = "conversation_id = %(owner)s"

    def rows(later: str) -> str:
        parts = [
            select(MESSAGES, f"{scope}{later} AND {kind}", "DESC", limit)
            for kind in _SHOWN[flagged]
        ]
        if len(parts) == 1:
            return parts[0]
        both = " UNION ALL ".join(f"({part})" for part in parts)
        order = _order(MESSAGES, "DESC")
        return f"SELECT * FROM ({both}) AS parts ORDER BY {order} LIMIT {limit:d}"

    return page(MESSAGES, rows, "DESC", after, scope)
