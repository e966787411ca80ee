"""The searches in the index: how many messages match, and which are the newest."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jazzmine.backends.sqlite.search import (
    BLOCK,
    MINUTE,
    conversation_token,
    role_token,
    user_token,
)
from jazzmine.errors import NotFoundError
from jazzmine.records.rows import Row
from jazzmine.records.types import MAX_INT
from jazzmine.search.query import Clause, FoundPage, SearchScope, Term
from jazzmine.search.ranking import MOST_FOUND_COUNTED, MOST_MESSAGES_COUNTED, Counts

__all__ = ["count_found", "list_found"]

# The entries that are not in the FTS5 table yet: they are few.
_WAITING = """(
    SELECT seq, id, timestamp, entry,
        ' ' || scope || ' ' || replace(entry, '|', ' ') || ' ' AS words
    FROM search_entries WHERE seq > (SELECT last_seq FROM search_state)) AS entries"""

# The FTS5 table has the messages in the order of their numbers. Mostly this is that of their
# timestamps: the last ones that match are the newest, unless some were stored before them that are
# newer.
_ROW = "SELECT entries.seq, entries.timestamp, entries.id, entries.entry"
_LIST = f"""
WITH last AS MATERIALIZED (
    {_ROW} $indexed ORDER BY search_index.rowid DESC LIMIT ?
), oldest AS MATERIALIZED (
    SELECT min(seq) AS seq, min(timestamp) AS timestamp FROM last HAVING count(*) = ?
), newer_blocks AS MATERIALIZED (
    SELECT block FROM search_blocks, oldest
    WHERE block <= oldest.{BLOCK} AND newest_minute >= oldest.{MINUTE}
)
SELECT id, entry FROM (
    SELECT * FROM last
    UNION ALL
    {_ROW} $indexed
        AND search_index.rowid >= coalesce((SELECT min(block) << 10 FROM newer_blocks), {MAX_INT})
        AND search_index.rowid < coalesce((SELECT seq FROM oldest), 0)
        AND search_index.rowid >> 10 IN newer_blocks
        AND entries.timestamp > (SELECT timestamp FROM oldest)
    UNION ALL
    {_ROW} $waiting)
ORDER BY timestamp DESC, seq DESC LIMIT ?
"""
_COUNT = "SELECT count(*) FROM (SELECT 1 $indexed UNION ALL SELECT 1 $waiting LIMIT ?)"


class _Match(NamedTuple):
    """What a message has, said twice.

    Attributes:
        query: for the FTS5 table.
        condition: for the words of an entry, in SQL.
        parts: the parameters of the condition.
    """

    query: str
    condition: str
    parts: tuple[str, ...]


class _Source(NamedTuple):
    """The rest of a query, and its parameters."""

    sql: str
    parameters: list[Any]


def count_found(
    connection: sqlite3.Connection, clauses: Sequence[Clause], scope: SearchScope
) -> Counts:
    """Count the messages of a scope, and those of them that have each clause."""
    in_scope = _scope_tokens(scope)
    if scope.roles:
        total = _count(connection, _joined("AND", in_scope), scope, MOST_MESSAGES_COUNTED)
    else:
        source = _messages(scope)
        query = f"SELECT count(*) FROM (SELECT 1 {source.sql} LIMIT ?)"
        parameters = [*source.parameters, MOST_MESSAGES_COUNTED]
        total = connection.execute(query, parameters).fetchone()[0]
    found = [
        _count(connection, _joined("AND", [_held(clause), *in_scope]), scope, MOST_FOUND_COUNTED)
        for clause in clauses
    ]
    return total, found


def list_found(connection: sqlite3.Connection, page: FoundPage) -> list[Row]:
    """Return the ids and entries of messages that have the clauses, newest first."""
    clauses, every, without, scope, limit, after = page
    wanted = _joined("AND" if every else "OR", map(_held, clauses))
    match = _joined("AND", [wanted, *_scope_tokens(scope)])
    if without:
        excluded = _joined("OR", map(_alternatives, without))
        match = _Match(
            f"({match.query}) NOT ({excluded.query})",
            f"({match.condition}) AND NOT ({excluded.condition})",
            match.parts + excluded.parts,
        )
    indexed, waiting = _indexed(match, scope), _waiting(match, scope)
    if after is not None:
        cursor = _cursor(connection, scope, after)
        indexed, waiting = _after(indexed, cursor), _after(waiting, cursor)
    statement = _LIST.replace("$indexed", indexed.sql).replace("$waiting", waiting.sql)
    first = [*indexed.parameters, limit, limit]
    parameters = [*first, *indexed.parameters, *waiting.parameters, limit]
    return connection.execute(statement, parameters).fetchall()


def _cursor(connection: sqlite3.Connection, scope: SearchScope, after: str) -> Sequence[Any]:
    source = _messages(scope._replace(roles=(), since=None, until=None))
    row: Sequence[Any] | None = connection.execute(
        f"SELECT messages.timestamp, messages.seq {source.sql} AND messages.id = ?",
        [*source.parameters, after],
    ).fetchone()
    if row is None:
        raise NotFoundError(f"after={after!r} is no message of what is searched")
    return row


def _after(source: _Source, cursor: Sequence[Any]) -> _Source:
    condition = " AND (entries.timestamp, entries.seq) < (?, ?)"
    return _Source(source.sql + condition, [*source.parameters, *cursor])


def _count(connection: sqlite3.Connection, match: _Match, scope: SearchScope, most: int) -> int:
    indexed, waiting = _indexed(match, scope), _waiting(match, scope)
    if scope.agent_id is None and scope.since is None and scope.until is None:
        indexed = _Source("FROM search_index WHERE search_index MATCH ?", [match.query])
    statement = _COUNT.replace("$indexed", indexed.sql).replace("$waiting", waiting.sql)
    row = connection.execute(statement, [*indexed.parameters, *waiting.parameters, most]).fetchone()
    count: int = row[0]
    return count


def _indexed(match: _Match, scope: SearchScope) -> _Source:
    """Return the messages that match, of those in the FTS5 table."""
    tables = "search_index CROSS JOIN search_entries AS entries ON entries.seq = search_index.rowid"
    return _entries(tables, "search_index MATCH ?", [match.query], scope)


def _waiting(match: _Match, scope: SearchScope) -> _Source:
    """Return the others that match."""
    return _entries(_WAITING, match.condition, match.parts, scope)


def _entries(tables: str, condition: str, parameters: Sequence[str], scope: SearchScope) -> _Source:
    if scope.agent_id is not None:
        tables += """
            CROSS JOIN stored_messages AS messages ON messages.seq = entries.seq
            CROSS JOIN stored_conversations AS conversations
                ON conversations.id = messages.conversation_id"""
    limits = {
        "conversations.agent_id = ?": scope.agent_id,
        "entries.timestamp >= ?": scope.since,
        "entries.timestamp < ?": scope.until,
    }
    limited = _where(f"FROM {tables} WHERE ({condition})", limits)
    return _Source(limited.sql, [*parameters, *limited.parameters])


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
    return _where(f"FROM {tables} WHERE true", limits)


def _where(sql: str, limits: Mapping[str, Any]) -> _Source:
    given = {limit: value for limit, value in limits.items() if value is not None}
    return _Source(" AND ".join([sql, *given]), list(given.values()))


def _scope_tokens(scope: SearchScope) -> list[_Match]:
    tokens = []
    if scope.user_id is not None:
        tokens.append(_word(user_token(scope.user_id)))
    if scope.conversation_id is not None:
        tokens.append(_word(conversation_token(scope.conversation_id)))
    if scope.roles:
        tokens.append(_joined("OR", [_word(role_token(role)) for role in scope.roles]))
    return tokens


def _held(clause: Clause) -> _Match:
    return _joined("AND", map(_alternatives, clause.terms))


def _alternatives(term: Term) -> _Match:
    return _joined("OR", [_word(form, term.is_prefix) for form in term.forms])


def _word(word: str, is_prefix: bool = False) -> _Match:
    query = f'"{word}"' + " *" * is_prefix
    return _Match(query, "instr(entries.words, ?)", (f" {word}" + " " * (not is_prefix),))


def _joined(operator: str, matches: Iterable[_Match]) -> _Match:
    queries, conditions, parts = zip(*matches, strict=True)
    between = f" {operator} "
    return _Match(
        f"({between.join(queries)})", f"({between.join(conditions)})", tuple(sum(parts, ()))
    )
