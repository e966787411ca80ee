"""The searches in the index: how many messages match, and which are the newest."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jazzmine.backends.sqlite.search import BLOCK, MINUTE, scope_word
from jazzmine.records.conversation_log import unknown_after
from jazzmine.records.rows import Row
from jazzmine.records.types import MAX_INT
from jazzmine.search.query import Clause, FoundPage, SearchScope, Term
from jazzmine.search.ranking import MOST_FOUND_COUNTED, MOST_MESSAGES_COUNTED, Counts

# The FTS5 table has the messages in the order of their numbers. Mostly this is that of their
# timestamps: the last ones that match are the newest, unless some were stored before them that are
# newer.
_ROW = "SELECT entries.rowid AS seq, entries.timestamp, entries.id, entries.entry"
_LIST = f"""
WITH last AS MATERIALIZED (
    {_ROW} $found ORDER BY entries.rowid DESC LIMIT ?
), oldest AS MATERIALIZED (
    SELECT min(seq) AS seq, min(timestamp) AS timestamp FROM last HAVING count(*) = ?
), newer_blocks AS MATERIALIZED (
    SELECT block FROM search_blocks, oldest
    WHERE block <= oldest.{BLOCK} AND newest_minute >= oldest.{MINUTE}
)
SELECT id, entry FROM (
    SELECT * FROM last
    UNION ALL
    {_ROW} $found
        AND entries.rowid >= coalesce((SELECT min(block) << 10 FROM newer_blocks), {MAX_INT})
        AND entries.rowid < coalesce((SELECT seq FROM oldest), 0)
        AND entries.rowid >> 10 IN newer_blocks
        AND entries.timestamp > (SELECT timestamp FROM oldest))
ORDER BY timestamp DESC, seq DESC LIMIT ?
"""


class _Source(NamedTuple):
    """The rest of a query, and its parameters."""

    sql: str
    parameters: list[Any]


def count_found(
    connection: sqlite3.Connection, clauses: Sequence[Clause], scope: SearchScope
) -> Counts:
    """Count the messages of a scope, and those of them that have each clause."""
    in_scope = _scope_words(scope)
    source = _found(_joined("AND", in_scope), scope) if scope.roles else _messages(scope)
    found = [_found(_joined("AND", [_held(clause), *in_scope]), scope) for clause in clauses]
    counts = [_count(connection, one, MOST_FOUND_COUNTED) for one in found]
    return _count(connection, source, MOST_MESSAGES_COUNTED), counts


def _count(connection: sqlite3.Connection, source: _Source, most: int) -> int:
    statement = f"SELECT count(*) FROM (SELECT 1 {source.sql} LIMIT ?)"
    count: int = connection.execute(statement, [*source.parameters, most]).fetchone()[0]
    return count


def list_found(connection: sqlite3.Connection, page: FoundPage) -> list[Row]:
    """Return the ids and entries of messages that have the clauses, newest first."""
    clauses, every, without, scope, limit, after = page
    wanted = _joined("AND" if every else "OR", map(_held, clauses))
    match = _joined("AND", [wanted, *_scope_words(scope)])
    if without:
        match = f"({match}) NOT {_joined('OR', map(_alternatives, without))}"
    source = _found(match, scope)
    if after is not None:
        condition = " AND (entries.timestamp, entries.rowid) < (?, ?)"
        cursor = _cursor(connection, scope, after)
        source = _Source(source.sql + condition, [*source.parameters, *cursor])
    parameters = [*source.parameters, limit, limit, *source.parameters, limit]
    return connection.execute(_LIST.replace("$found", source.sql), parameters).fetchall()


def _cursor(connection: sqlite3.Connection, scope: SearchScope, after: str) -> Sequence[Any]:
    source = _messages(scope._replace(roles=(), since=None, until=None))
    row: Sequence[Any] | None = connection.execute(
        f"SELECT messages.timestamp, messages.seq {source.sql} AND messages.id = ?",
        [*source.parameters, after],
    ).fetchone()
    if row is None:
        raise unknown_after(after)
    return row


def _found(match: str, scope: SearchScope) -> _Source:
    """Return the entries of a scope that match a query of FTS5."""
    tables = "search_index AS entries"
    if scope.agent_id is not None:
        tables += """
            CROSS JOIN stored_messages AS messages ON messages.seq = entries.rowid
            CROSS JOIN stored_conversations AS conversations
                ON conversations.id = messages.conversation_id"""
    limits = {
        "search_index MATCH ?": match,
        "conversations.agent_id = ?": scope.agent_id,
        "entries.timestamp >= ?": scope.since,
        "entries.timestamp < ?": scope.until,
    }
    return _where(tables, limits)


def _messages(scope: SearchScope) -> _Source:
    """Return all messages of a scope, which does not name roles."""
    by_conversation = scope.conversation_id is not None
    limits = {
        # A conversation has fewer messages than a user: its index is the one to use.
        f"{'+' * by_conversation}messages.user_id = ?": scope.user_id,
        "messages.conversation_id = ?": scope.conversation_id,
        "conversations.agent_id = ?": scope.agent_id,
        "messages.timestamp >= ?": scope.since,
        "messages.timestamp < ?": scope.until,
    }
    tables = "stored_messages AS messages"
    if scope.agent_id is not None:
        tables += """ CROSS JOIN stored_conversations AS conversations
            ON conversations.id = messages.conversation_id"""
    return _where(tables, limits)


def _where(tables: str, limits: Mapping[str, Any]) -> _Source:
    given = {limit: value for limit, value in limits.items() if value is not None}
    return _Source(" AND ".join([f"FROM {tables} WHERE true", *given]), list(given.values()))


# Queries of FTS5


def _scope_words(scope: SearchScope) -> list[str]:
    words = []
    if scope.user_id is not None:
        words.append(_word(scope_word("user", scope.user_id)))
    if scope.conversation_id is not None:
        words.append(_word(scope_word("conversation", scope.conversation_id)))
    if scope.roles:
        words.append(_joined("OR", [_word(scope_word("role", role)) for role in scope.roles]))
    return words


def _held(clause: Clause) -> str:
    return _joined("AND", map(_alternatives, clause.terms))


def _alternatives(term: Term) -> str:
    return _joined("OR", [_word(form, term.is_prefix) for form in term.forms])


def _word(word: str, is_prefix: bool = False) -> str:
    return f'"{word}"' + " *" * is_prefix


def _joined(operator: str, queries: Iterable[str]) -> str:
    return f"({f' {operator} '.join(queries)})"
