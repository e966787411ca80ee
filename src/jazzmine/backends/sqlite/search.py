"""The search index: an FTS5 table of what the analyser has made of each message.

Triggers note each message that is stored, changed or deleted, and what is noted is indexed in the
same transaction. So what a process stores that has not learned of the index yet is not lost: the
next one that writes or searches indexes it.
"""

from __future__ import annotations

import json
import sqlite3
from hashlib import blake2b
from typing import Literal, TypeAlias

from jazzmine.backends.sqlite.connection import as_text
from jazzmine.records.types import MAX_INT
from jazzmine.search.analyser import Analyser, analyser_for
from jazzmine.search.query import SearchState

# Connections for reading give text as UTF-8.
AnyText: TypeAlias = str | bytes

_TABLES = (
    # `next_seq`: the number of the next message to index, or NULL if all are.
    "CREATE TABLE search_state (language TEXT NOT NULL, next_seq INTEGER)",
    # The numbers of messages that were stored, changed or deleted, and not indexed yet.
    "CREATE TABLE search_pending (seq INTEGER PRIMARY KEY)",
    # The newest timestamp, or a newer one, of messages whose numbers follow each other: which of
    # them may be newer than some that were stored later. It is counted in steps of about a minute,
    # since most writes then leave it as it is.
    "CREATE TABLE search_blocks (block INTEGER PRIMARY KEY, newest_minute INTEGER NOT NULL)",
    # `scope` says whose message it is. With the id and the timestamp, so that a search reads
    # nothing else of a message that it does not return.
    """CREATE VIRTUAL TABLE search_index USING fts5 (
    id UNINDEXED, timestamp UNINDEXED, scope, entry,
    detail = none, columnsize = 0, tokenize = "ascii tokenchars '_.,:'''")""",
)
MINUTE, BLOCK = "timestamp >> 16", "seq >> 10"
_SET_BLOCK = f"""INSERT INTO search_blocks SELECT new.{BLOCK}, new.{MINUTE} WHERE true
    ON CONFLICT DO UPDATE SET newest_minute = excluded.newest_minute
    WHERE newest_minute < excluded.newest_minute;"""
# A virtual table is not safe in the triggers of a file that another program may have made, so that
# they only note what has to change in it. The upsert of a message would override INSERT OR IGNORE.
_TRIGGERS = {
    "search_stored": f"""AFTER INSERT ON stored_messages BEGIN
    INSERT INTO search_pending VALUES (new.seq) ON CONFLICT DO NOTHING; {_SET_BLOCK}
END""",
    "search_changed": f"""AFTER UPDATE OF user_id, timestamp, body ON stored_messages BEGIN
    INSERT INTO search_pending VALUES (new.seq) ON CONFLICT DO NOTHING; {_SET_BLOCK}
END""",
    "search_deleted": """AFTER DELETE ON stored_messages BEGIN
    INSERT INTO search_pending VALUES (old.seq) ON CONFLICT DO NOTHING;
END""",
}

_HAS_SEARCH = "SELECT count(*) FROM sqlite_schema WHERE name = 'search_state'"
_STATE = "SELECT language, next_seq FROM search_state"
_HAS_PENDING = "SELECT EXISTS (SELECT 1 FROM search_pending)"
_PENDING = """
SELECT seq, id, timestamp, user_id, conversation_id, body FROM stored_messages
WHERE seq IN (SELECT seq FROM search_pending)
"""
_REMOVE_PENDING = "DELETE FROM search_index WHERE rowid IN (SELECT seq FROM search_pending)"
_INDEX = "INSERT INTO search_index (rowid, id, timestamp, scope, entry) VALUES (?, ?, ?, ?, ?)"
_NOTE_SOME = """
INSERT OR IGNORE INTO search_pending
SELECT seq FROM stored_messages WHERE seq >= ? ORDER BY seq LIMIT ?
"""
_NOTE_DIFFERENCE = """
INSERT OR IGNORE INTO search_pending
SELECT * FROM (SELECT seq FROM stored_messages EXCEPT SELECT rowid FROM search_index)
UNION SELECT * FROM (SELECT rowid FROM search_index EXCEPT SELECT seq FROM stored_messages)
"""
_FIRST_BLOCKS = f"""
INSERT INTO search_blocks SELECT {BLOCK}, max({MINUTE}) FROM stored_messages GROUP BY 1
"""
_DIFFERS = """
SELECT (SELECT count(*) FROM stored_messages) <> (SELECT count(*) FROM search_index)
"""
_NEXT = "SELECT seq FROM stored_messages WHERE seq >= ? ORDER BY seq LIMIT 1 OFFSET ?"

# So many pages at a time: others write in between.
_MERGE = "INSERT INTO search_index (search_index, rank) VALUES ('merge', -500)"


def read_state(connection: sqlite3.Connection) -> SearchState | None:
    """Return how the database was made, or None if it has no index."""
    if not connection.execute(_HAS_SEARCH).fetchone()[0]:
        return None
    language, next_seq = connection.execute(_STATE).fetchone()
    return SearchState(as_text(language), next_seq is None)


def read_state_and_pending(connection: sqlite3.Connection) -> tuple[SearchState | None, bool]:
    """Return the same as `read_state`, and whether a complete index lacks stored messages."""
    state = read_state(connection)
    if state is None or not state.is_complete:
        return state, False
    return state, bool(connection.execute(_HAS_PENDING).fetchone()[0])


def make(connection: sqlite3.Connection, language: str | None) -> None:
    """Make the index, for no message yet, in place of another one; None removes it."""
    stored = read_state(connection)
    if (None if stored is None else stored.language) == language:
        return
    for trigger in _TRIGGERS:
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    for table in ("index", "pending", "blocks", "state"):
        connection.execute(f"DROP TABLE IF EXISTS search_{table}")
    if language is None:
        return
    for statement in _TABLES:
        connection.execute(statement)
    for name, trigger in _TRIGGERS.items():
        connection.execute(f"CREATE TRIGGER {name} {trigger}")
    connection.execute(_FIRST_BLOCKS)
    first = connection.execute("SELECT min(seq) FROM stored_messages").fetchone()[0]
    connection.execute("INSERT INTO search_state VALUES (?, ?)", [language, first])


def fill(connection: sqlite3.Connection, size: int) -> int | None:
    """Index some of the messages that are not; return how many, or None if there was none."""
    if read_state(connection) is None:  # another process has removed the index
        return None
    _, first = connection.execute(_STATE).fetchone()
    if first is None:
        # All were indexed: mend what differs.
        differs = connection.execute(_DIFFERS).fetchone()[0]
        indexed = connection.execute(_NOTE_DIFFERENCE).rowcount if differs else None
        index_pending(connection)
        return indexed
    indexed = connection.execute(_NOTE_SOME, [first, size]).rowcount
    index_pending(connection)
    row = connection.execute(_NEXT, [first, min(size, MAX_INT)]).fetchone()
    following = None if row is None else row[0]
    connection.execute("UPDATE search_state SET next_seq = ?", [following])
    return indexed


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
    if not connection.execute(_HAS_PENDING).fetchone()[0]:
        return
    connection.execute(_REMOVE_PENDING)
    analyser = analyser_for(as_text(connection.execute(_STATE).fetchone()[0]))
    rows = connection.execute(_PENDING).fetchall()
    connection.executemany(_INDEX, [_entry(analyser, *row) for row in rows])
    connection.execute("DELETE FROM search_pending")


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
    message_id: AnyText,
    timestamp: int,
    user_id: AnyText,
    conversation_id: AnyText,
    body: AnyText,
) -> tuple[int, str, int, str, str]:
    try:
        fields = json.loads(body)
        text, role = str(fields["original_content"]), str(fields["role"])
    except (ValueError, KeyError, TypeError, RecursionError):  # of another program
        text, role = "", ""
    user, conversation = scope_word("user", user_id), scope_word("conversation", conversation_id)
    scope = f"{user} {conversation} {scope_word('role', role)}"
    return seq, as_text(message_id), timestamp, scope, analyser.entry(text)


def scope_word(kind: Literal["user", "conversation", "role"], value: AnyText) -> str:
    """Return the word in the scope of all messages of a user, a conversation or an author.

    No word begins with a colon: the beginning of a word finds none of these.
    """
    data = value.encode() if isinstance(value, str) else value
    return f":{kind[0]}{blake2b(data, digest_size=12).hexdigest()}"
