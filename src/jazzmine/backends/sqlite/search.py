"""The index of words: an FTS5 table over what the analyser has made of each message.

Triggers note each message that is stored, changed or deleted, and what is noted is indexed in the
same transaction. So what a process stores that has not learned of the index yet is not lost: the
next one that writes or searches indexes it.

https://www.sqlite.org/fts5.html#external_content_tables
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

from jazzmine.backends.sqlite.file_check import FORMAT, SEARCH_FORMAT
from jazzmine.errors import NotFoundError
from jazzmine.records.rows import Row
from jazzmine.records.types import MAX_INT
from jazzmine.search.analyser import Analyser, analyser_for
from jazzmine.search.index import SearchState
from jazzmine.search.query import Clause, SearchScope, Term
from jazzmine.search.ranking import MOST_FOUND_COUNTED, MOST_MESSAGES_COUNTED, Counts

__all__ = [
    "copy_entries",
    "count_found",
    "fill",
    "has_pending",
    "index_changes",
    "index_pending",
    "list_found",
    "make",
    "merge",
    "read_state",
]

# Connections for reading give text as UTF-8.
AnyText: TypeAlias = str | bytes

_TABLES = (
    # `next_seq`: the number of the next message to index, or NULL if all are.
    "CREATE TABLE search_state (language TEXT NOT NULL, next_seq INTEGER)",
    # `entry` is NULL until the message is indexed. `scope` says whose message it is. With the id
    # and the timestamp, so that a search reads nothing else of a message that it does not return.
    """CREATE TABLE search_entries (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL, timestamp INTEGER NOT NULL,
    scope TEXT, entry TEXT)""",
    "CREATE INDEX idx_search_pending ON search_entries (seq) WHERE entry IS NULL",
    "CREATE TABLE search_removed (seq INTEGER NOT NULL, scope TEXT, entry TEXT)",
    # The newest timestamp, or a newer one, of messages whose numbers follow each other: which of
    # them may be newer than some that were stored later. It is counted in steps of about a minute,
    # since most writes then leave it as it is.
    "CREATE TABLE search_blocks (block INTEGER PRIMARY KEY, newest_minute INTEGER NOT NULL)",
    """CREATE VIRTUAL TABLE search_index USING fts5 (
    scope, entry, content = 'search_entries', content_rowid = 'seq', detail = none,
    columnsize = 0, tokenize = "ascii tokenchars '_.,:'''")""",
)
# A virtual table is not safe in the triggers of a file that another program may have made, so that
# they only note what has to change in it.
_MINUTE, _BLOCK = "timestamp >> 16", "seq >> 10"
_NOTE_BLOCK = f"""INSERT INTO search_blocks VALUES (new.{_BLOCK}, new.{_MINUTE})
    ON CONFLICT DO UPDATE SET newest_minute = excluded.newest_minute
    WHERE newest_minute < excluded.newest_minute;"""
_NOTE_REMOVED = "INSERT INTO search_removed VALUES (old.seq, old.scope, old.entry);"
_TRIGGERS = {
    "search_stored": """AFTER INSERT ON stored_messages BEGIN
    INSERT INTO search_entries (seq, id, timestamp) VALUES (new.seq, new.id, new.timestamp);
END""",
    "search_changed": """AFTER UPDATE OF user_id, timestamp, body ON stored_messages BEGIN
    UPDATE search_entries SET timestamp = new.timestamp, entry = NULL WHERE seq = new.seq;
END""",
    "search_moved": """AFTER UPDATE OF user_id ON stored_conversations
WHEN new.user_id <> old.user_id BEGIN
    UPDATE search_entries SET entry = NULL
    WHERE seq IN (SELECT seq FROM stored_messages WHERE conversation_id = new.id);
END""",
    "search_deleted": """AFTER DELETE ON stored_messages BEGIN
    DELETE FROM search_entries WHERE seq = old.seq;
END""",
    "search_dated": f"""AFTER INSERT ON search_entries BEGIN
    {_NOTE_BLOCK}
END""",
    "search_dated_anew": f"""AFTER UPDATE OF timestamp ON search_entries BEGIN
    {_NOTE_BLOCK}
END""",
    "search_emptied": f"""AFTER UPDATE OF entry ON search_entries
WHEN old.entry IS NOT NULL AND new.entry IS NULL BEGIN
    {_NOTE_REMOVED}
END""",
    "search_removed": f"""AFTER DELETE ON search_entries WHEN old.entry IS NOT NULL BEGIN
    {_NOTE_REMOVED}
END""",
}

_HAS_SEARCH = "SELECT count(*) FROM sqlite_schema WHERE name = 'search_state'"
_STATE = "SELECT language, next_seq FROM search_state"
_HAS_PENDING = """
SELECT EXISTS (SELECT 1 FROM search_entries WHERE entry IS NULL)
    OR EXISTS (SELECT 1 FROM search_removed)
"""
_REMOVED = "SELECT seq, scope, entry FROM search_removed"
_REMOVE = """
INSERT INTO search_index (search_index, rowid, scope, entry) VALUES ('delete', ?, ?, ?)
"""
_PENDING = """
SELECT messages.seq, messages.user_id, messages.conversation_id, owners.user_id, messages.body
FROM stored_messages AS messages
LEFT JOIN stored_conversations AS owners ON owners.id = messages.conversation_id
WHERE messages.seq IN (SELECT seq FROM search_entries WHERE entry IS NULL)
"""
_SOURCES = """
SELECT entries.scope, entries.entry
FROM stored_messages AS messages LEFT JOIN search_entries AS entries ON entries.seq = messages.seq
WHERE messages.conversation_id = ? AND (messages.timestamp, messages.seq) <= (?, ?)
ORDER BY messages.timestamp, messages.seq
"""
_COPIES = "SELECT seq FROM stored_messages WHERE conversation_id = ? ORDER BY timestamp, seq"
_SET_ENTRY = "UPDATE search_entries SET scope = ?, entry = ? WHERE seq = ?"
_INDEX = "INSERT INTO search_index (scope, entry, rowid) VALUES (?, ?, ?)"
_NOTE_SOME = """
INSERT OR IGNORE INTO search_entries (seq, id, timestamp)
SELECT seq, id, timestamp FROM stored_messages WHERE seq >= ? ORDER BY seq LIMIT ?
"""
_NEXT = "SELECT seq FROM stored_messages WHERE seq >= ? ORDER BY seq LIMIT 1 OFFSET ?"
_LEFT = "SELECT count(*) FROM stored_messages WHERE seq >= ?"

# The index has the messages in the order of their numbers. Mostly this is that of their timestamps:
# the last ones that match are the newest, unless some were stored before them that are newer.
_LIST = f"""
WITH last AS MATERIALIZED (
    SELECT entries.seq, entries.timestamp, entries.id, entries.entry $source
    ORDER BY search_index.rowid DESC LIMIT ?
), oldest AS MATERIALIZED (
    SELECT min(seq) AS seq, min(timestamp) AS timestamp FROM last HAVING count(*) = ?
), newer_blocks AS MATERIALIZED (
    SELECT block FROM search_blocks, oldest
    WHERE block <= oldest.{_BLOCK} AND newest_minute >= oldest.{_MINUTE}
)
SELECT id, entry FROM (
    SELECT * FROM last
    UNION ALL
    SELECT entries.seq, entries.timestamp, entries.id, entries.entry $source
        AND search_index.rowid >= coalesce((SELECT min(block) << 10 FROM newer_blocks), {MAX_INT})
        AND search_index.rowid < coalesce((SELECT seq FROM oldest), 0)
        AND search_index.rowid >> 10 IN newer_blocks
        AND entries.timestamp > (SELECT timestamp FROM oldest))
ORDER BY timestamp DESC, seq DESC LIMIT ?
"""

# So many pages at a time: others write in between.
_MERGE = "INSERT INTO search_index (search_index, rank) VALUES ('merge', -500)"


# What is indexed


def read_state(connection: sqlite3.Connection) -> SearchState | None:
    """Return how the database was made, or None if it has no index."""
    if not connection.execute(_HAS_SEARCH).fetchone()[0]:
        return None
    language, next_seq = connection.execute(_STATE).fetchone()
    return SearchState(_text(language), next_seq is None)


def make(connection: sqlite3.Connection, language: str | None) -> None:
    """Make the index, for no message yet, in place of another one; None removes it."""
    stored = read_state(connection)
    if (None if stored is None else stored.language) == language:
        return
    for trigger in _TRIGGERS:
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    for table in ("index", "entries", "removed", "blocks", "state"):
        connection.execute(f"DROP TABLE IF EXISTS search_{table}")
    # An older version refuses the database.
    connection.execute(f"PRAGMA user_version = {FORMAT if language is None else SEARCH_FORMAT}")
    if language is None:
        return
    for statement in _TABLES:
        connection.execute(statement)
    for name, trigger in _TRIGGERS.items():
        connection.execute(f"CREATE TRIGGER {name} {trigger}")
    first = connection.execute("SELECT min(seq) FROM stored_messages").fetchone()[0]
    connection.execute("INSERT INTO search_state VALUES (?, ?)", [language, first])


def fill(connection: sqlite3.Connection, size: int) -> tuple[int, int]:
    """Index some of the messages that are not; return how many, and how many are left."""
    _, first = connection.execute(_STATE).fetchone()
    if first is None:
        return 0, 0
    indexed = connection.execute(_NOTE_SOME, [first, size]).rowcount
    index_pending(connection)
    row = connection.execute(_NEXT, [first, min(size, MAX_INT)]).fetchone()
    following = None if row is None else row[0]
    connection.execute("UPDATE search_state SET next_seq = ?", [following])
    left = 0 if following is None else connection.execute(_LEFT, [following]).fetchone()[0]
    return indexed, left


def has_pending(connection: sqlite3.Connection) -> bool:
    """Return whether messages were stored that are not indexed."""
    return bool(connection.execute(_HAS_PENDING).fetchone()[0])


def index_changes(connection: sqlite3.Connection) -> bool:
    """Index what has changed in this transaction; return False if the index was removed."""
    try:
        index_pending(connection)
    except sqlite3.OperationalError:
        if read_state(connection) is not None:
            raise
        return False
    return True


def index_pending(connection: sqlite3.Connection) -> None:
    """Index the messages that were stored, changed or deleted in this transaction."""
    removed = connection.execute(_REMOVED).fetchall()
    if removed:
        connection.executemany(_REMOVE, removed)
        connection.execute("DELETE FROM search_removed")
    rows = connection.execute(_PENDING).fetchall()
    if rows:
        analyser = analyser_for(_text(connection.execute(_STATE).fetchone()[0]))
        entries = [_entry(analyser, *row) for row in rows]
        connection.executemany(_SET_ENTRY, entries)
        connection.executemany(_INDEX, entries)


def copy_entries(
    connection: sqlite3.Connection, source: str, last: Sequence[Any], copy: str, owner: str
) -> None:
    """Index the messages of a fork as those that they were copied from, without analysing them.

    Args:
        connection: in the transaction that made the fork.
        source: the conversation that was copied.
        last: the timestamp and the number of the last message that was copied.
        copy: the new conversation.
        owner: its user.
    """
    if read_state(connection) is None:
        return
    whose = f" {_conversation(copy)} {_viewer(owner)} "
    entries = []
    sources = connection.execute(_SOURCES, [source, *last]).fetchall()
    for (scope, entry), (seq,) in zip(sources, connection.execute(_COPIES, [copy]), strict=True):
        if entry is not None:
            user, _, _, role = scope.split(" ")
            entries.append((user + whose + role, entry, seq))
    connection.executemany(_SET_ENTRY, entries)
    connection.executemany(_INDEX, entries)


def merge(connection: sqlite3.Connection) -> bool:
    """Write a part of the index anew, without the words of what was deleted.

    Returns:
        Whether all of it is done.
    """
    before = connection.total_changes
    connection.execute(_MERGE)
    return connection.total_changes - before < 2


def _entry(
    analyser: Analyser,
    seq: int,
    user_id: AnyText,
    conversation_id: AnyText,
    owner: AnyText | None,
    body: AnyText,
) -> tuple[str, str, int]:
    try:
        fields = json.loads(body)
        text, role = str(fields["original_content"]), str(fields["role"])
    except (ValueError, KeyError, TypeError, RecursionError):  # of another program
        text, role = "", ""
    scope = (_user(user_id), _conversation(conversation_id), _viewer(owner or ""), _role(role))
    return " ".join(scope), analyser.entry(text), seq


# No word begins with a colon: the beginning of a word finds none of these.


def _user(user_id: AnyText) -> str:
    return f":u{_digest(user_id)}"


def _conversation(conversation_id: AnyText) -> str:
    return f":c{_digest(conversation_id)}"


def _viewer(user_id: AnyText) -> str:
    return f":v{_digest(user_id)}"


def _role(role: AnyText) -> str:
    return f":r{_digest(role)}"


def _digest(value: AnyText) -> str:
    data = value.encode() if isinstance(value, str) else value
    return blake2b(data, digest_size=12).hexdigest()


def _text(stored: AnyText) -> str:
    return stored if isinstance(stored, str) else stored.decode()


# Queries


def count_found(
    connection: sqlite3.Connection, clauses: Sequence[Clause], scope: SearchScope
) -> Counts:
    """Count the messages of a scope, and those of them that have each clause."""
    in_scope = " AND ".join(_scope_tokens(scope))
    indexed = in_scope if scope.roles or scope.viewer is not None else ""
    total = _count(connection, indexed, scope, MOST_MESSAGES_COUNTED)
    found = [
        _count(connection, _both(_held(clause), in_scope), scope, MOST_FOUND_COUNTED)
        for clause in clauses
    ]
    return total, found


def list_found(
    connection: sqlite3.Connection,
    clauses: Sequence[Clause],
    every: bool,
    without: Sequence[Term],
    scope: SearchScope,
    limit: int,
    after: str | None,
) -> list[Row]:
    """Return the ids and entries of messages that have the clauses, newest first."""
    match = _both(
        f"({(' AND ' if every else ' OR ').join(map(_held, clauses))})",
        " AND ".join(_scope_tokens(scope)),
    )
    if without:
        match = f"({match}) NOT ({' OR '.join(map(_alternatives, without))})"
    source, parameters = _source(match, scope)
    if after is not None:
        source += " AND (entries.timestamp, entries.seq) < (?, ?)"
        parameters += _cursor(connection, scope, after)
    statement = _LIST.replace("$source", source)
    return connection.execute(statement, [*parameters, limit, limit, *parameters, limit]).fetchall()


def _cursor(connection: sqlite3.Connection, scope: SearchScope, after: str) -> list[Any]:
    source, parameters = _messages(scope._replace(roles=(), since=None, until=None))
    row = connection.execute(
        f"SELECT messages.timestamp, messages.seq {source} AND messages.id = ?",
        [*parameters, after],
    ).fetchone()
    if row is None:
        raise NotFoundError(f"after={after!r} is no message of what is searched")
    return list(row)


def _count(connection: sqlite3.Connection, match: str, scope: SearchScope, most: int) -> int:
    source, parameters = _source(match, scope) if match else _messages(scope)
    if match and not (scope.agent_id or scope.since is not None or scope.until is not None):
        source, parameters = "FROM search_index WHERE search_index MATCH ?", [match]
    row = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 {source} LIMIT ?)", [*parameters, most]
    ).fetchone()
    count: int = row[0]
    return count


def _source(match: str, scope: SearchScope) -> tuple[str, list[Any]]:
    """Return the rest of a query, and its parameters, for the messages of a scope that match.

    Args:
        match: what they have in the index, with the tokens of the scope.
        scope: which messages.
    """
    conditions = {
        "search_index MATCH ?": match,
        "conversations.agent_id = ?": scope.agent_id,
        "entries.timestamp >= ?": scope.since,
        "entries.timestamp < ?": scope.until,
    }
    tables = "search_index CROSS JOIN search_entries AS entries ON entries.seq = search_index.rowid"
    if scope.agent_id is not None:
        tables += """
            CROSS JOIN stored_messages AS messages ON messages.seq = entries.seq
            CROSS JOIN stored_conversations AS conversations
                ON conversations.id = messages.conversation_id"""
    return _where(tables, conditions)


def _messages(scope: SearchScope) -> tuple[str, list[Any]]:
    """Return the same for all messages of a scope, which does not name roles."""
    by_conversation = scope.conversation_id is not None
    conditions = {
        # A conversation has fewer messages than a user: its index is the one to use.
        f"{'+' * by_conversation}messages.user_id = ?": scope.user_id,
        "messages.conversation_id = ?": scope.conversation_id,
        "conversations.agent_id = ?": scope.agent_id,
        "conversations.user_id = ?": scope.viewer,
        "messages.timestamp >= ?": scope.since,
        "messages.timestamp < ?": scope.until,
    }
    tables = "stored_messages AS messages"
    if scope.agent_id is not None or scope.viewer is not None:
        tables += """ CROSS JOIN stored_conversations AS conversations
            ON conversations.id = messages.conversation_id"""
    return _where(tables, conditions)


def _where(tables: str, conditions: Mapping[str, Any]) -> tuple[str, list[Any]]:
    given = {sql: value for sql, value in conditions.items() if value is not None}
    return f"FROM {tables} WHERE {' AND '.join(given) or 'true'}", list(given.values())


def _scope_tokens(scope: SearchScope) -> list[str]:
    tokens = []
    if scope.user_id is not None:
        tokens.append(f'"{_user(scope.user_id)}"')
    if scope.conversation_id is not None:
        tokens.append(f'"{_conversation(scope.conversation_id)}"')
    if scope.viewer is not None:
        tokens.append(f'"{_viewer(scope.viewer)}"')
    if scope.roles:
        tokens.append(
            f"({' OR '.join(f'{chr(34)}{_role(role)}{chr(34)}' for role in scope.roles)})"
        )
    return tokens


def _both(match: str, scope: str) -> str:
    return f"{match} AND {scope}" if scope else match


def _held(clause: Clause) -> str:
    return f"({' AND '.join(map(_alternatives, clause.terms))})"


def _alternatives(term: Term) -> str:
    star = " *" if term.is_prefix else ""
    return f"({' OR '.join(f'{chr(34)}{form}{chr(34)}{star}' for form in term.forms)})"
