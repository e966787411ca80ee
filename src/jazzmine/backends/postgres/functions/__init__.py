"""The functions of the schema: each write of a store is one of them.

Their text, in the files beside this one, has placeholders for the schema, the columns and the
fence. A function names its own schema, so that no setting of a session decides which tables it
means: opening a store compares the functions with what they must be, and makes them anew if the
schema was renamed, or restored without them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from importlib import resources

from jazzmine.backends.columns import CONVERSATIONS, MESSAGES, TURN_TRACES, Table
from jazzmine.backends.postgres.objects import is_surely_readable, object_of
from jazzmine.backends.postgres.schema import LEASE_GONE, REFUSED, TAKEN, UNSEEN, quoted
from jazzmine.backends.postgres.word_index import (
    INDEX_COPIES,
    INDEX_GIVEN,
    INDEX_MESSAGES,
    INDEX_OWNER,
    entry_name,
)

__all__ = ["functions_of"]

# A longer answer is not sent while the locks are held: the client reads it from the lease.
_LONGEST_ANSWER = 65_536

_DEFINITION = re.compile(
    r"^CREATE (FUNCTION \$schema\.(\w+)\(.*?\$body\$(.*?)\$body\$);", re.MULTILINE | re.DOTALL
)
_FINISH = re.compile(r"^ *\$finish\((.*), (\w+)\)$", re.MULTILINE)
_INDEX = re.compile(r"^ *\$(index\w*)\((.*)\)\n", re.MULTILINE)
_SCOPED_LINES = re.compile(r"^( *)\$scoped\{([^}]*)\}\n", re.MULTILINE)
_SCOPED_PART = re.compile(r" \$scoped\{([^}]*)\}")
_SEEN = re.compile(r"^ *\$seen\((\w+)\)\n", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\$(conversations|messages|turn_traces)\.(\w+)")


def _finish(match: re.Match[str]) -> str:
    answer, users = match.groups()
    returned = answer
    if users != "NULL":
        returned = f"CASE WHEN octet_length({answer}) <= {_LONGEST_ANSWER} THEN {answer} END"
    return f"""
    UPDATE $schema.jazzmine_leases
    SET id = next_lease, calls = call_number, result = {answer}, users = {users}
    WHERE id = lease AND NOT is_retired;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '{LEASE_GONE}',
            MESSAGE = 'the lease of this connection is retired';
    END IF;
    RETURN {returned};"""


# A trace that replaces another one of the same message is stored last; if its id belongs to another
# message, this is a conflict.
_STORE_TRACE = """
        $scoped{IF EXISTS (
            SELECT FROM $schema.turn_traces
            WHERE id = trace ->> 'id' AND message_id <> trace ->> 'message_id')
        THEN -- the insertion would wait for one that changes it
            RAISE EXCEPTION USING ERRCODE = 'JZ002',
                MESSAGE = format('the trace %L belongs to another message', trace ->> 'id');
        END IF;}
        INSERT INTO $schema.turn_traces ($turn_traces.columns)
        SELECT $turn_traces.values FROM json_to_record(trace) AS given ($turn_traces.definitions)
        ON CONFLICT DO NOTHING; -- see jazzmine_store_message
        IF NOT FOUND THEN
            INSERT INTO $schema.turn_traces AS stored ($turn_traces.columns)
            SELECT $turn_traces.values
            FROM json_to_record(trace) AS given ($turn_traces.definitions)
            ON CONFLICT (message_id) DO UPDATE SET $turn_traces.replacements,
                seq = CASE WHEN stored.id = excluded.id THEN stored.seq ELSE excluded.seq END
            WHERE $turn_traces.is_changed;
        END IF;"""

# What only scoped functions have.
_REQUIRE_SEEN = """    IF NOT EXISTS (
        SELECT FROM $schema.conversations WHERE id = {0} AND user_id = viewer)
    THEN
        RAISE EXCEPTION USING ERRCODE = 'JZ003', TABLE = 'conversations', MESSAGE = {0};
    END IF;
"""
_REQUIRE_STORABLE = """$schema.jazzmine_require_storable(
        viewer, owners, given_id, messages, trace_message)"""
_OF_VIEWER = """EXISTS (
        SELECT FROM $schema.conversations AS owner
        WHERE owner.id = conversation_id AND owner.user_id = viewer)"""

_INDEXING = {
    "index": INDEX_MESSAGES,
    "index_given": INDEX_GIVEN,
    "index_copies": INDEX_COPIES,
    "index_owner": INDEX_OWNER,
}

_KEYS = {"conversations": "id", "messages": "id", "turn_traces": "message_id"}
_FORKED = {
    "id": "$schema.jazzmine_forked_id(salt, source.id)",
    "message_id": "$schema.jazzmine_forked_id(salt, source.message_id)",
    "conversation_id": "copy_id",
}


def _part(table: Table, name: str) -> str:
    if name == "replacements":
        return table.replacements(_KEYS[table.name])
    if name == "object":
        return object_of(table)
    if name == "is_surely_readable":
        return is_surely_readable(table)
    if name == "values_after_last_timestamp":
        return table.values.replace(" timestamp,", " greatest(timestamp, last_timestamp),")
    if name == "forked_columns":
        return ", ".join(_FORKED.get(column, column) for column in table.kind.model_fields)
    part = getattr(table, name)
    assert isinstance(part, str)
    return part


def _indexing(part: str, rows: str, language: str | None) -> str:
    if language is None:
        return ""
    statement = _INDEXING[part].replace("$rows", rows)
    return f"    {statement}\n".replace("$entry", f'"{entry_name(language)}"')


def _with_scoped(definition: str) -> str:
    """Return a definition without the parts for scopes, and if it has some, the scoped one, too."""
    unscoped = _SCOPED_PART.sub("", _SCOPED_LINES.sub("", _SEEN.sub("", definition)))
    if unscoped == definition:
        return definition
    scoped = _SEEN.sub(lambda found: _REQUIRE_SEEN.format(found[1]), definition)
    scoped = _SCOPED_PART.sub(r" \1", _SCOPED_LINES.sub(r"\1\2\n", scoped))
    scoped = re.sub(r"\.(\w+)\(", r".\1_scoped(viewer text, ", scoped, count=1)
    return f"{unscoped}\n\n{scoped}"


def _for_each(text: str, tables: Iterable[str]) -> str:
    """Return the text of a file once for each table, which it calls `$table`."""
    named = re.sub(r"\$table\.(?=\w)", "$<table>.", text)
    return "".join(
        named.replace("$<table>", f"${table}").replace("$table", table) for table in tables
    )


@functools.cache
def _texts(files: tuple[str, ...], language: str | None) -> dict[str, tuple[str, str]]:
    """Return the definition and the body of each function in files, by name, with `$schema`."""
    folder = resources.files(__name__)
    tables = {table.name: table for table in (CONVERSATIONS, MESSAGES, TURN_TRACES)}
    texts = [folder.joinpath(f"{name}.sql").read_text(encoding="utf-8") for name in files]
    text = "".join(_for_each(text, tables) if "$table" in text else text for text in texts)
    text = text.replace("$store_trace", _STORE_TRACE)
    text = _DEFINITION.sub(lambda found: _with_scoped(found[0]), text)
    text = text.replace("$require_storable", _REQUIRE_STORABLE).replace("$of_viewer", _OF_VIEWER)
    for code, state in {"JZ002": REFUSED, "JZ003": UNSEEN, "JZ004": TAKEN}.items():
        text = text.replace(code, state)
    text = text.replace("$fence", "lease bigint, next_lease bigint, call_number bigint")
    text = re.sub(r"\$lock\((\w+)\)", r"hashtextextended(\1, 1784772461)", text)
    text = _INDEX.sub(lambda found: _indexing(found[1], found[2], language), text)
    text = _FINISH.sub(_finish, text)
    text = _PLACEHOLDER.sub(lambda found: _part(tables[found[1]], found[2]), text)
    return {name: (definition, body) for definition, name, body in _DEFINITION.findall(text)}


@functools.lru_cache(maxsize=64)
def functions_of(
    schema: str, files: tuple[str, ...], language: str | None = None
) -> dict[str, tuple[str, str]]:
    """Return the statement that makes each function of a schema, and its body, by name.

    Args:
        schema: the name of the schema.
        files: where they are, in this folder.
        language: that of the index of words; empty without stems, None without an index.
    """
    name = quoted(schema)
    return {
        function: (
            f"CREATE OR REPLACE {definition.replace('$schema', name)}",
            body.replace("$schema", name),
        )
        for function, (definition, body) in _texts(files, language).items()
    }
