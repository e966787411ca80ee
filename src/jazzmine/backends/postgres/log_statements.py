"""The statements for a conversation as a log, for erasure and retention.

Most of them call a function of the schema, because a statement does not see what was committed
while it waited for a lock; the functions, and what they return, are in the migrations.
"""

from __future__ import annotations

import functools

from jazzmine.backends.columns import CONVERSATIONS, MESSAGES
from jazzmine.backends.postgres.readable import is_readable
from jazzmine.backends.postgres.statements import as_json, bounded, select
from jazzmine.records.messages import Message

__all__ = [
    "APPEND",
    "APPEND_TO_EACH",
    "CREATE_CONVERSATION",
    "ERASE",
    "FORK",
    "OLD_CONVERSATIONS",
    "POP",
    "PRUNE",
    "REWIND",
    "newest",
]


# Writes: the parts of a WITH clause, as `recorded` takes them.


def _calling(function: str, *parameters: str) -> str:
    return f"SELECT * FROM $schema.{function}({', '.join(parameters)})"


def _stored(row: str) -> str:
    """Return the query for a record out of a whole row as JSON, which may have more columns."""
    return f"SELECT {MESSAGES.columns} FROM json_to_record({row}) AS row ({MESSAGES.definitions})"


def _append(check: str, floor: str, *, more: str = "", name: str = "") -> str:
    """Return the parts of an append: the numbers refer to `checked`, so are taken under the locks.

    Args:
        check: the query for what a function decided.
        floor: the timestamp of the newest message before, null if nothing must be stored.
        more: a list that is read beside the messages.
        name: the column with its elements.
    """
    floor_column = floor.partition("[")[0]
    values = MESSAGES.values.replace(" timestamp,", f" greatest(timestamp, {floor}),")
    return f"""
checked AS MATERIALIZED ({check}),
stored AS (
    INSERT INTO {MESSAGES.qualified} ({MESSAGES.columns}, seq)
    SELECT {values}, seq
    FROM checked CROSS JOIN LATERAL ROWS FROM (
        json_to_recordset(%(messages)s::json) AS ({MESSAGES.definitions}),{more}
        $schema.jazzmine_message_numbers(
            CASE WHEN {floor_column} IS NOT NULL THEN cardinality(%(ids)s::text[]) END)
    ) AS given ({MESSAGES.columns},{name} seq)
    WHERE {floor} IS NOT NULL
    ORDER BY id COLLATE "C"
)"""


# written: the timestamp of the newest message before, or the least bigint. Otherwise, result says
# why nothing was stored.
_ONE = _calling(
    "jazzmine_append",
    "%(owner)s::text",
    "%(ids)s::text[]",
    "%(is_any)s::boolean",
    "%(expected_last)s::text",
    "%(latest)s::bigint",
)
APPEND = f"""{_append(_ONE, "checked.floor")}, main AS (
    SELECT
        floor AS written,
        CASE WHEN refusal IS NOT NULL THEN json_build_object('refusal', refusal, 'stored', ARRAY(
            SELECT row_to_json(record)::text
            FROM json_array_elements(refusal -> 'stored') AS stored (row)
                CROSS JOIN LATERAL ({_stored("stored.row")}) AS record
        ))::text END AS result,
        NULL::text[] AS users
    FROM checked
)"""

# result: the floor of each, null if it was refused.
_EACH = _calling(
    "jazzmine_append_to_each",
    "%(owners)s::text[]",
    "%(sizes)s::text[]::integer[]",
    "%(ids)s::text[]",
    "%(is_any)s::text[]::boolean[]",
    "%(expected_last)s::text[]",
    "%(latest)s::text[]::bigint[]",
)
_NUMBERED = "\n        unnest(%(appends)s::text[]::integer[]),"
APPEND_TO_EACH = f"""{
    _append(_EACH, "checked.floors[append]", more=_NUMBERED, name=" append,")
}, main AS (
    SELECT
        CASE WHEN array_remove(floors, NULL) <> '{{}}' THEN 1 END AS written,
        array_to_json(floors)::text AS result,
        '{{}}'::text[] AS users
    FROM checked
)"""

# result: the newest message. It is deleted if it can certainly be read, or if it is the one that
# the caller has read before.
POP = f"""
newest AS MATERIALIZED ({_calling("jazzmine_newest", "%(owner)s::text")}),
record AS MATERIALIZED (
    SELECT record.* FROM newest CROSS JOIN LATERAL ({_stored("newest.message")}) AS record
    WHERE newest.message IS NOT NULL
), read AS MATERIALIZED (
    -- The condition has `fields` many times: it must be made once.
    SELECT id, to_jsonb(record) AS fields FROM record
), deleted AS MATERIALIZED (
    SELECT $schema.jazzmine_delete_message(id) AS count FROM read
    WHERE id = %(readable)s::text OR {is_readable(Message, "fields")}
), main AS (
    SELECT
        (SELECT count FROM deleted) AS written,
        (SELECT row_to_json(record)::text FROM record) AS result,
        (SELECT newest.owners || record.user_id FROM newest, record, deleted) AS users
)"""

# result: the ids of the copies by those of the messages; or what hindered it.
FORK = f"""
source AS MATERIALIZED (
    {_calling("jazzmine_fork_source", "%(owner)s::text", "%(until)s::text")}
), stored AS (
    INSERT INTO {CONVERSATIONS.qualified} ({CONVERSATIONS.columns})
    SELECT {CONVERSATIONS.values}
    FROM json_to_record(%(conversation)s::json) AS given ({CONVERSATIONS.definitions})
    WHERE EXISTS (SELECT FROM source WHERE refusal IS NULL)
    ON CONFLICT (id) DO NOTHING
    RETURNING id, user_id
), copied AS MATERIALIZED (
    SELECT copies.result, source.owners || stored.user_id || copies.users AS users
    FROM source CROSS JOIN stored CROSS JOIN LATERAL $schema.jazzmine_fork(
        %(owner)s::text, stored.id, source.last_timestamp, source.last_seq, %(salt)s::text
    ) AS copies
), main AS (
    SELECT
        (SELECT 1 FROM copied) AS written,
        coalesce(copied.result, source.refusal, 'stored already') AS result,
        copied.users
    FROM source LEFT JOIN copied ON true
)"""

REWIND = f"main AS ({_calling('jazzmine_rewind', '%(owner)s::text', '%(after)s::text')})"
ERASE = f"main AS ({_calling('jazzmine_erase', '%(user)s::text', '%(limit)s::integer')})"
_PRUNE = _calling("jazzmine_prune", "%(ids)s::text[]", "%(before)s::bigint", "%(limit)s::integer")
PRUNE = f"main AS ({_PRUNE})"

# Neither `written` nor `result` means that another transaction has stored it meanwhile.
CREATE_CONVERSATION = f"""
stored AS (
    INSERT INTO {CONVERSATIONS.qualified} ({CONVERSATIONS.columns})
    SELECT {CONVERSATIONS.values}
    FROM json_to_record(%(conversation)s::json) AS given ({CONVERSATIONS.definitions})
    ON CONFLICT (id) DO NOTHING
    RETURNING id
), found AS (
    SELECT {CONVERSATIONS.columns} FROM {CONVERSATIONS.qualified} WHERE id = %(id)s
), main AS (
    SELECT CASE WHEN EXISTS (SELECT FROM stored) THEN 1 END AS written,
        (SELECT row_to_json(found)::text FROM found) AS result,
        NULL::text[] AS users
)"""


# Reads

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


def _newest(condition: str, limit: int, calls: bool) -> str:
    pages = [
        bounded(select(MESSAGES, f"{condition} AND {kind}", _ORDER), limit)
        for kind in (_UNFLAGGED, *([_FLAGGED_CALLS] if calls else ()))
    ]
    if len(pages) == 1:
        return pages[0]
    both = " UNION ALL ".join(f"({page})" for page in pages)
    return bounded(f"SELECT * FROM ({both}) AS pages ORDER BY {_ORDER}", limit)


@functools.lru_cache(maxsize=1024)
def newest(limit: int, calls: bool, after: bool) -> str:
    """Return the statement for a page of a conversation's newest messages, newest first.

    With `after`, its rows are as those of other pages.

    Args:
        limit: the largest number of rows.
        calls: whether flagged messages of an assistant or a colleague are in the page, too.
        after: whether the page begins after a message.
    """
    outer = "page.timestamp DESC, page.seq DESC"
    condition = "conversation_id = %(owner)s"
    if not after:
        return as_json(MESSAGES, f"({_newest(condition, limit, calls)}) AS page", outer)
    older = f"{condition} AND (timestamp, seq) < (mark.mark_0, mark.mark_1)"
    return as_json(
        MESSAGES,
        f"""(
    SELECT timestamp AS mark_0, seq AS mark_1 FROM {MESSAGES.qualified}
    WHERE id = %(after)s AND {condition}
) AS mark LEFT JOIN LATERAL ({_newest(older, limit, calls)}) AS page ON true""",
        outer,
    )
