"""The search index: what the analyser has made of each message, and an FTS5 table over that.

Triggers note each message that is stored, changed or deleted, and what is noted is indexed in the
same transaction. So what a process stores that has not learned of the index yet is not lost: the
next one that writes or searches indexes it.

A transaction that adds one message to an FTS5 table writes twice as many pages as one that stores
it. So the entries of the last messages, which are few, wait for each other, and searches read them
as they are (see `search_queries`).

https://www.sqlite.org/fts5.html#external_content_tables
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

from jazzmine.records.types import MAX_INT
from jazzmine.search.analyser import Analyser, analyser_for
from jazzmine.search.index import SearchState

__all__ = [
    "BLOCK",
    "MINUTE",
    "conversation_token",
    "copy_entries",
    "count_unindexed",
    "fill",
    "index_changes",
    "index_pending",
    "make",
    "merge",
    "read_state",
    "read_state_and_pending",
    "role_token",
    "user_token",
]

# Connections for reading give text as UTF-8.
AnyText: TypeAlias = str | bytes

_TABLES = (
    # `next_seq`: the number of the next message to index, or NULL if all are. `last_seq`: that of
    # the last message in the FTS5 table; the entries of those after it wait.
    """CREATE TABLE search_state (
    language TEXT NOT NULL, next_seq INTEGER, last_seq INTEGER NOT NULL)""",
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
MINUTE, BLOCK = "timestamp >> 16", "seq >> 10"
_NOTE_BLOCK = f"""INSERT INTO search_blocks VALUES (new.{BLOCK}, new.{MINUTE})
    ON CONFLICT DO UPDATE SET newest_minute = excluded.newest_minute
    WHERE newest_minute < excluded.newest_minute;"""
_IS_INDEXED = "old.seq <= (SELECT last_seq FROM search_state)"
_NOTE_REMOVED = "INSERT INTO search_removed VALUES (old.seq, old.scope, old.entry);"
_TRIGGERS = {
    "search_stored": """AFTER INSERT ON stored_messages BEGIN
    INSERT INTO search_entries (seq, id, timestamp) VALUES (new.seq, new.id, new.timestamp);
END""",
    "search_changed": """AFTER UPDATE OF user_id, timestamp, body ON stored_messages BEGIN
    UPDATE search_entries SET timestamp = new.timestamp, entry = NULL WHERE seq = new.seq;
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
WHEN old.entry IS NOT NULL AND new.entry IS NULL AND {_IS_INDEXED} BEGIN
    {_NOTE_REMOVED}
END""",
    "search_removed": f"""AFTER DELETE ON search_entries
WHEN old.entry IS NOT NULL AND {_IS_INDEXED} BEGIN
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
SELECT seq, user_id, conversation_id, body FROM stored_messages
WHERE seq IN (SELECT seq FROM search_entries WHERE entry IS NULL)
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
_LAST = """
SELECT last_seq, (SELECT count(*) FROM search_entries WHERE seq > last_seq) FROM search_state
"""
_WAITING = "SELECT scope, entry, seq FROM search_entries WHERE seq > ? AND entry IS NOT NULL"
_SET_LAST = "UPDATE search_state SET last_seq = (SELECT max(seq) FROM search_entries)"
_NOTE_SOME = """
INSERT OR IGNORE INTO search_entries (seq, id, timestamp)
SELECT seq, id, timestamp FROM stored_messages WHERE seq >= ? ORDER BY seq LIMIT ?
"""
_NOTE_LACKING = """
INSERT INTO search_entries (seq, id, timestamp)
SELECT seq, id, timestamp FROM stored_messages AS messages
WHERE NOT EXISTS (SELECT 1 FROM search_entries WHERE seq = messages.seq)
"""
_REMOVE_LEFT_OVER = """
DELETE FROM search_entries
WHERE NOT EXISTS (SELECT 1 FROM stored_messages WHERE seq = search_entries.seq)
"""
_COUNT_UNINDEXED = """
SELECT abs((SELECT count(*) FROM stored_messages)
    - (SELECT count(*) FROM search_entries WHERE entry IS NOT NULL))
"""
_NEXT = "SELECT seq FROM stored_messages WHERE seq >= ? ORDER BY seq LIMIT 1 OFFSET ?"
_LEFT = "SELECT count(*) FROM stored_messages WHERE seq >= ?"

# A search reads so many entries in a fraction of a millisecond.
MOST_WAITING = 50

# So many pages at a time: others write in between.
_MERGE = "INSERT INTO search_index (search_index, rank) VALUES ('merge', -500)"


def read_state(connection: sqlite3.Connection) -> SearchState | None:
    """Return how the database was made, or None if it has no index."""
    if not connection.execute(_HAS_SEARCH).fetchone()[0]:
        return None
    language, next_seq = connection.execute(_STATE).fetchone()
    return SearchState(_text(language), next_seq is None)


def make(connection: sqlite3.Connection, language: str | None, size: int) -> None:
    """Make the index, for `size` messages at first, in place of another one; None removes it."""
    stored = read_state(connection)
    if (None if stored is None else stored.language) == language:
        return
    for trigger in _TRIGGERS:
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    for table in ("index", "entries", "removed", "blocks", "state"):
        connection.execute(f"DROP TABLE IF EXISTS search_{table}")
    if language is None:
        return
    for statement in _TABLES:
        connection.execute(statement)
    for name, trigger in _TRIGGERS.items():
        connection.execute(f"CREATE TRIGGER {name} {trigger}")
    first = connection.execute("SELECT min(seq) FROM stored_messages").fetchone()[0]
    connection.execute("INSERT INTO search_state VALUES (?, ?, 0)", [language, first])
    if size:
        fill(connection, size)


def fill(connection: sqlite3.Connection, size: int) -> tuple[int, int]:
    """Index some of the messages that are not; return how many, and how many are left."""
    _, first = connection.execute(_STATE).fetchone()
    if first is None:
        return _mend(connection), 0
    indexed = connection.execute(_NOTE_SOME, [first, size]).rowcount
    index_pending(connection)
    row = connection.execute(_NEXT, [first, min(size, MAX_INT)]).fetchone()
    following = None if row is None else row[0]
    connection.execute("UPDATE search_state SET next_seq = ?", [following])
    left = 0 if following is None else connection.execute(_LEFT, [following]).fetchone()[0]
    return indexed, left


def _mend(connection: sqlite3.Connection) -> int:
    """Make the entries those of the messages; return how many were not."""
    if not count_unindexed(connection):
        return 0
    mended = connection.execute(_REMOVE_LEFT_OVER).rowcount
    mended += connection.execute(_NOTE_LACKING).rowcount
    index_pending(connection)
    return mended


def count_unindexed(connection: sqlite3.Connection) -> int:
    """Return by how many the numbers of messages and of their entries differ."""
    count: int = connection.execute(_COUNT_UNINDEXED).fetchone()[0]
    return count


def read_state_and_pending(connection: sqlite3.Connection) -> tuple[SearchState | None, bool]:
    """Return the same as `read_state`, and whether a complete index lacks stored messages."""
    state = read_state(connection)
    if state is None or not state.is_complete:
        return state, False
    return state, bool(connection.execute(_HAS_PENDING).fetchone()[0])


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
        _index(connection, entries)


def _index(connection: sqlite3.Connection, entries: Sequence[tuple[str, str, int]]) -> None:
    """Store entries, each with its scope and its number, and index them unless they may wait."""
    connection.executemany(_SET_ENTRY, entries)
    last, waiting = connection.execute(_LAST).fetchone()
    connection.executemany(_INDEX, [entry for entry in entries if entry[2] <= last])
    if waiting >= MOST_WAITING:
        connection.executemany(_INDEX, connection.execute(_WAITING, [last]).fetchall())
        connection.execute(_SET_LAST)


def copy_entries(
    connection: sqlite3.Connection, source: str, last: Sequence[Any], copy: str
) -> None:
    """Index the messages of a fork as those that they were copied from, without analysing them.

    Args:
        connection: in the transaction that made the fork.
        source: the conversation that was copied.
        last: the timestamp and the number of the last message that was copied.
        copy: the new conversation.
    """
    if read_state(connection) is None:
        return
    entries = []
    sources = connection.execute(_SOURCES, [source, *last]).fetchall()
    for (scope, entry), (seq,) in zip(sources, connection.execute(_COPIES, [copy]), strict=True):
        if entry is not None:
            user, _, role = scope.split(" ")
            entries.append((f"{user} {conversation_token(copy)} {role}", entry, seq))
    _index(connection, entries)


def merge(connection: sqlite3.Connection) -> bool:
    """Write a part of the index anew, without the words of what was deleted.

    Returns:
        Whether all of it is done.
    """
    before = connection.total_changes
    connection.execute(_MERGE)
    return connection.total_changes - before < 2


def _entry(
    analyser: Analyser, seq: int, user_id: AnyText, conversation_id: AnyText, body: AnyText
) -> tuple[str, str, int]:
    try:
        fields = json.loads(body)
        text, role = str(fields["original_content"]), str(fields["role"])
    except (ValueError, KeyError, TypeError, RecursionError):  # of another program
        text, role = "", ""
    scope = user_token(user_id), conversation_token(conversation_id), role_token(role)
    return " ".join(scope), analyser.entry(text), seq


# No word begins with a colon: the beginning of a word finds none of these.


def user_token(user_id: AnyText) -> str:
    """Return the word in the scope of a user's messages."""
    return f":u{_digest(user_id)}"


def conversation_token(conversation_id: AnyText) -> str:
    """Return the word in the scope of a conversation's messages."""
    return f":c{_digest(conversation_id)}"


def role_token(role: AnyText) -> str:
    """Return the word in the scope of an author's messages."""
    return f":r{_digest(role)}"


def _digest(value: AnyText) -> str:
    data = value.encode() if isinstance(value, str) else value
    return blake2b(data, digest_size=12).hexdigest()


def _text(stored: AnyText) -> str:
    return stored if isinstance(stored, str) else stored.decode()
