"""The search index in a schema: its table, its triggers, and the searches.

The entry of a message is a column, which begins with the language of the index. Triggers (see
`functions/index.sql`) put its terms as lexemes into a row of a table of their own: the words and
stems of the entry, and others, which begin with a colon, for the user, the conversation and the
role. So a search within a user is one search in the GIN index, which
intersects the lists of the rarest terms first. A row is pending if the message was stored by a
process that does not know of the index, or has an entry of another language.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from pydantic_core import to_json

from jazzmine.backends.postgres.text import from_text, to_text
from jazzmine.records.messages import Message
from jazzmine.records.rows import Row
from jazzmine.search.analyser import Analyser
from jazzmine.search.query import Clause, SearchScope, SearchState, Term


def read_state(name: str | None) -> SearchState | None:
    """Return the state of an index as the table of versions names it, or None without an index."""
    if name is None:
        return None
    _, language, progress = name.split(":")
    return SearchState(language, progress == "complete")


def entry_of(message: Message, analyser: Analyser) -> str:
    """Return the entry of a message, which needs no escapes."""
    return f"{analyser.language}:{analyser.entry(message.original_content)}"


def with_entry(json: bytes, message: Message, analyser: Analyser | None) -> bytes:
    """Return the JSON of a message with its entry, if there is an index."""
    if analyser is None:
        return json
    return b'%b,"entry":"%b"}' % (json[:-1], entry_of(message, analyser).encode())


def entries_json(rows: Iterable[Row], analyser: Analyser) -> str:
    """Return the parameter for the entries of messages, given as ids, texts and versions."""
    entries = [
        {
            "id": row[0],
            "version": row[2],
            "entry": f"{analyser.language}:{analyser.entry(from_text(row[1]))}",
        }
        for row in rows
    ]
    return to_json(entries).decode()


# The table and the note of it

MAKE_TABLE = """
CREATE TABLE $schema.message_words (
    message_id      text   PRIMARY KEY REFERENCES $schema.messages (id) ON DELETE CASCADE,
    conversation_id text   NOT NULL,
    timestamp       bigint NOT NULL,
    seq             bigint NOT NULL,
    is_pending      boolean NOT NULL,
    terms           tsvector NOT NULL
);
ALTER TABLE $schema.message_words ALTER COLUMN terms SET STATISTICS 0;
-- What is new waits in a list, which a search reads to its end: it is kept short.
CREATE INDEX idx_words_terms ON $schema.message_words USING gin (terms)
    WITH (gin_pending_list_limit = 1024);
CREATE INDEX idx_words_time ON $schema.message_words (timestamp, seq);
CREATE INDEX idx_words_pending ON $schema.message_words (message_id) WHERE is_pending;
"""
REMOVE_TRIGGERS = """
DROP TRIGGER IF EXISTS jazzmine_index_insert ON $schema.messages;
DROP TRIGGER IF EXISTS jazzmine_index_update ON $schema.messages;
"""
_MAKE_TRIGGERS = """
CREATE TRIGGER jazzmine_index_insert AFTER INSERT ON $schema.messages
FOR EACH ROW EXECUTE FUNCTION $schema.jazzmine_index_message('$language');
CREATE TRIGGER jazzmine_index_update AFTER UPDATE OF entry, user_id ON $schema.messages
FOR EACH ROW EXECUTE FUNCTION $schema.jazzmine_index_message('$language');
"""
EMPTY_TABLE = "TRUNCATE $schema.message_words;"
REMOVE_TABLE = "DROP TABLE IF EXISTS $schema.message_words"


def make_triggers(language: str) -> str:
    """Return the statements that make the triggers of an index anew."""
    return REMOVE_TRIGGERS + _MAKE_TRIGGERS.replace("$language", language)


REMOVE_NOTE = "DELETE FROM $schema.jazzmine_migrations WHERE version = 1000"
NOTE_SEARCH = """
INSERT INTO $schema.jazzmine_migrations (version, name)
SELECT 1000, 'search:' || %(language)s::text || ':'
    || CASE WHEN EXISTS (SELECT FROM $schema.messages) THEN 'filling' ELSE 'complete' END
ON CONFLICT (version) DO UPDATE SET name = excluded.name, applied_at = now()
"""
SEARCH_STATE = "SELECT name FROM $schema.jazzmine_migrations WHERE version = 1000"
COMPLETE = """
UPDATE $schema.jazzmine_migrations SET name = 'search:' || %(language)s::text || ':complete'
WHERE version = 1000 AND name = 'search:' || %(language)s::text || ':filling'
RETURNING version
"""

# Filling

# Each message only if it is still the version that was read; one that another call has locked is
# left to the next call. The triggers do the rest.
INDEX = """
UPDATE $schema.messages SET entry = chosen.entry
FROM (
    SELECT stored.id, given.entry
    FROM json_to_recordset(%(entries)s::json) AS given (id text, version text, entry text)
        JOIN $schema.messages AS stored
            ON stored.id = given.id AND stored.xmin::text = given.version
    FOR UPDATE OF stored SKIP LOCKED
) AS chosen
WHERE messages.id = chosen.id
RETURNING true
"""

# The messages without an entry, in the order of their ids, each with its version.
UNINDEXED = """
SELECT id, original_content, xmin::text FROM $schema.messages AS stored
WHERE id > %(after)s AND NOT EXISTS (
    SELECT FROM $schema.message_words WHERE message_id = stored.id AND NOT is_pending)
ORDER BY id LIMIT %(limit)s::bigint
"""
PENDING = """
SELECT stored.id, stored.original_content, stored.xmin::text
FROM $schema.message_words AS words JOIN $schema.messages AS stored ON stored.id = words.message_id
WHERE words.is_pending LIMIT %(limit)s::bigint
"""

# Searches

# What is not given is null, which leaves nothing of its condition in the plan of a call.
_OF_AGENT = """(%(agent)s::text IS NULL OR conversation_id IN (
        SELECT id FROM $schema.conversations WHERE agent_id = %(agent)s::text))"""
_OF_OWNERS = f"""(%(user)s::text IS NULL OR user_id = %(user)s::text)
    AND (%(conversation)s::text IS NULL OR conversation_id = %(conversation)s::text)
    AND {_OF_AGENT}"""
_IN_TIME = """(%(since)s::bigint IS NULL OR timestamp >= %(since)s::bigint)
    AND (%(until)s::bigint IS NULL OR timestamp < %(until)s::bigint)"""

# The messages of a scope, and those that match each of `queries`; the counts end somewhere.
COUNT_FOUND = f"""
SELECT (
    SELECT count(*) FROM (
        SELECT FROM $schema.messages
        WHERE {_OF_OWNERS} AND {_IN_TIME}
            AND (%(roles)s::text[] IS NULL OR role = ANY(%(roles)s::text[]))
        LIMIT %(most_messages)s::bigint) AS counted
), ARRAY(
    SELECT (
        SELECT count(*) FROM (
            SELECT FROM $schema.message_words
            WHERE terms @@ query::tsquery AND {_OF_AGENT} AND {_IN_TIME}
            LIMIT %(most_found)s::bigint) AS counted)
    FROM unnest(%(queries)s::text[]) WITH ORDINALITY AS given (query, position)
    ORDER BY position
)"""

# The place of the message `after`, if it may be in the scope.
PLACE = f"SELECT timestamp, seq FROM $schema.messages WHERE id = %(after)s AND {_OF_OWNERS}"

# Those that match `query`, before a place: ids and entries, newest first.
LIST_FOUND = f"""
SELECT found.message_id, substr(stored.entry, strpos(stored.entry, ':') + 1)
FROM (
    SELECT message_id, timestamp, seq FROM $schema.message_words
    WHERE terms @@ %(query)s::tsquery AND {_OF_AGENT} AND {_IN_TIME}
        AND (timestamp, seq) < (%(last_timestamp)s::bigint, %(last_seq)s::bigint)
    ORDER BY timestamp DESC, seq DESC LIMIT %(limit)s::bigint
) AS found JOIN $schema.messages AS stored ON stored.id = found.message_id
ORDER BY found.timestamp DESC, found.seq DESC"""


def scope_parameters(scope: SearchScope) -> dict[str, object]:
    """Return the parameters of a scope."""
    return {
        "user": scope.user_id and to_text(scope.user_id),
        "conversation": scope.conversation_id and to_text(scope.conversation_id),
        "agent": scope.agent_id and to_text(scope.agent_id),
        "roles": list(scope.roles) or None,
        "since": scope.since,
        "until": scope.until,
    }


def scope_query(scope: SearchScope, *others: str) -> str:
    """Return the text search query for the messages of a scope that match other queries, too."""
    parts = [part for part in others if part]
    if scope.roles:
        parts.insert(0, _any(_quoted(f":r{role}") for role in scope.roles))
    if scope.conversation_id is not None:
        parts.insert(0, _quoted(f":c{_hash(scope.conversation_id)}"))
    if scope.user_id is not None:
        parts.insert(0, _quoted(f":u{_hash(scope.user_id)}"))
    return " & ".join(parts)


def clause_query(clause: Clause) -> str:
    """Return the text search query for the messages that have all terms of a clause."""
    return " & ".join(map(_term_query, clause.terms))


def clauses_query(
    clauses: Sequence[Clause], every: bool, without: Sequence[Term], scope: SearchScope
) -> str:
    """Return the text search query for a list of messages."""
    wanted = list(map(clause_query, clauses))
    if not every:
        wanted = [_any(f"({query})" for query in wanted)]
    return scope_query(scope, *wanted, *(f"!{_term_query(term)}" for term in without))


def _term_query(term: Term) -> str:
    ending = ":*" if term.is_prefix else ""
    return _any(_quoted(form) + ending for form in term.forms)


def _any(queries: Iterable[str]) -> str:
    return f"({' | '.join(queries)})"


def _quoted(term: str) -> str:
    doubled = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"


def _hash(record_id: str) -> str:
    return hashlib.sha256(to_text(record_id).encode()).hexdigest()[:32]
