"""The statements for pages of records; `$schema` stands for the schema of the tables.

Each contains an upper bound of its size: without it, the server plans for a tenth of all rows, or
plans each call anew.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Literal

from jazzmine.backends.columns import CONVERSATIONS, MESSAGES, Table
from jazzmine.backends.postgres.statements import as_json
from jazzmine.records.base import FlaggedShown

__all__ = [
    "bounded",
    "conversations_page",
    "messages_page",
    "newest",
    "next_messages",
    "select",
]

_MAX_BIGINT = 2**63 - 1


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
    return f"SELECT * FROM ({query} LIMIT {_size(limit + offset)}) AS bounded {rest}"


def _size(limit: int) -> int:
    """Return the upper bound of a limit in the text of a statement: a power of two."""
    return min(1 << max(0, limit - 1).bit_length(), _MAX_BIGINT)


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
