"""`adopt`: what jazzmine 0.1.42 has stored into a store of this version. Nothing else reads it."""

from __future__ import annotations

import json
import math
import re
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import typer
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from jazzmine.cli.output import Refused, line, write
from jazzmine.cli.places import Batch, Messages, Sort
from jazzmine.cli.program import command
from jazzmine.cli.progress import counting
from jazzmine.cli.stores import MESSAGES, Named
from jazzmine.config import BackendConfig, JSONStoreConfig, MongoDBConfig, PostgresConfig
from jazzmine.extras import extra
from jazzmine.records.base import Record, require_stored
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
from jazzmine.records.types import MAX_DEPTH, MAX_INT, MIN_INT
from jazzmine.sync import MessageStore

AnyRecord = TypeVar("AnyRecord", bound=Record)

_KINDS: dict[Sort, tuple[str, type[Record]]] = {
    "conversations": ("conversations", Conversation),
    "messages": ("messages", Message),
    "traces": ("turn_traces", TurnTrace),
}
_AT_ONCE = 200
_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"
_NEWER = "FROM is a store of this version; `jazzmine copy` copies it"


@command("adopt")
def adopt(
    source: Annotated[
        str,
        typer.Argument(metavar="FROM", help="The URL of what 0.1.42 stored; it is not changed."),
    ],
    target: Annotated[
        str,
        typer.Argument(metavar="TO", help="The URL of the new store; it is created if needed."),
    ],
) -> None:
    """Bring the records of jazzmine 0.1.42 into a store of this version.

    FROM is a JSON file, the tables of a PostgreSQL schema, or the collections of a MongoDB
    database. Values that a record cannot hold are replaced, and a table says which. A record that
    TO holds already stays as it is there, so the same command goes on where it was interrupted.

    Example: `jazzmine adopt mongodb://localhost/chatbot sqlite:agent.db`
    """
    old, new = Named(MESSAGES, source, "FROM"), Named(MESSAGES, target, "TO")
    if old.config == new.config:
        raise typer.BadParameter("FROM and TO are the same place; choose another one for TO")
    report = Report()
    with old_records(old.config) as read, new.open(create=True) as store, counting() as counter:
        for kind, records in counter.through("adopting", report.stream(read)):
            _store(Messages(store), kind, records, report)
    report.print()


# Reading

# Yields what a table, a collection or a section holds, in the order in which it was stored.
Read: TypeAlias = Callable[[str], Iterator[dict[str, Any]]]


@contextmanager
def old_records(config: BackendConfig) -> Iterator[Read]:
    """Open what 0.1.42 stored, for a block; raise `Refused` if it is a store of this version."""
    if isinstance(config, JSONStoreConfig):
        yield _in_file(Path(config.path))
    elif isinstance(config, PostgresConfig):
        with extra("postgres", "PostgreSQL"):
            import psycopg

            from jazzmine.backends.postgres.dsn import Address
            from jazzmine.backends.postgres.errors import unavailable
        address = Address.of(config.dsn, config.timeout)
        try:
            with psycopg.connect(address.conninfo) as connection:
                first = connection.execute("SELECT current_schema()").fetchone()
                yield _in_tables(connection, config.schema or str(first and first[0]))
        except psycopg.Error as error:
            if error.sqlstate is None:  # no answer of the server
                raise unavailable(error, address.name) from None
            raise Refused(f"FROM cannot be read: {error.diag.message_primary}") from None
    elif isinstance(config, MongoDBConfig):
        with extra("mongodb", "MongoDB"):
            import pymongo

            from jazzmine.backends.mongodb.driver import server_names
            from jazzmine.backends.mongodb.errors import translated
        servers = server_names(config.uri, ())
        try:
            with pymongo.MongoClient[dict[str, Any]](config.uri) as client:
                yield _in_collections(client[config.db])
        except pymongo.errors.PyMongoError as error:
            raise translated(error, servers, reached=False) from None
    else:
        raise typer.BadParameter("jazzmine 0.1.42 stored in JSON, PostgreSQL and MongoDB alone")


def _in_file(path: Path) -> Read:
    # 0.1.42 wrote lone surrogates as escapes, NaN, and integers of any size.
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise Refused(f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict) or "version" in document:
        raise Refused(_NEWER if isinstance(document, dict) else f"{path} holds no records")

    def read(section: str) -> Iterator[dict[str, Any]]:
        records = document.get(section, [])
        # 0.1.42 kept several traces of one message, and found the last.
        key = "message_id" if section == "turn_traces" else "id"
        return iter({raw.get(key, at): raw for at, raw in enumerate(records)}.values())

    return read


def _in_tables(connection: Any, schema: str) -> Read:
    from psycopg import sql
    from psycopg.rows import dict_row

    marker = sql.Identifier(schema, "jazzmine_migrations").as_string(connection)
    if connection.execute("SELECT to_regclass(%s)", [marker]).fetchone()[0] is not None:
        raise Refused(_NEWER)

    def read(table: str) -> Iterator[dict[str, Any]]:
        with connection.cursor(f"adopt_{table}", row_factory=dict_row) as cursor:
            cursor.execute(
                sql.SQL("SELECT * FROM {} ORDER BY ctid").format(sql.Identifier(schema, table))
            )
            yield from cursor

    return read


def _in_collections(database: Any) -> Read:
    if database["jazzmine_fields"].find_one() is not None:
        raise Refused(_NEWER)

    def read(collection: str) -> Iterator[dict[str, Any]]:
        for document in database[collection].find(sort=[("_id", 1)]):
            del document["_id"]
            yield _plain_document(document)

    return read


def _plain_document(value: Any) -> Any:
    if hasattr(value, "as_doc"):  # the driver decodes an object with `$ref` as a DBRef
        value = value.as_doc()
    if isinstance(value, dict):
        return {name: _plain_document(item) for name, item in value.items()}
    return list(map(_plain_document, value)) if isinstance(value, list) else value


# Writing


class Report:
    """Counts what was read, written, replaced and left out."""

    def __init__(self) -> None:
        self.read: Tally[Sort] = Tally()
        self.found: Tally[Sort] = Tally()
        self.stored: Tally[Sort] = Tally()
        self.left_out: list[tuple[Sort, str, str]] = []
        # How many values of a field were replaced for a reason, and in which record first.
        self.replaced: dict[tuple[Sort, str, str], tuple[int, str]] = {}

    def stream(self, read: Read) -> Iterator[Batch]:
        """Yield the records, with replacements, some at a time."""
        for kind, (name, record_class) in _KINDS.items():
            stored = read(name)
            while part := list(islice(stored, _AT_ONCE)):
                made = (self._record(kind, record_class, raw) for raw in part)
                yield kind, [record for record in made if record is not None]

    def _record(self, kind: Sort, record_class: type[Record], raw: dict[str, Any]) -> Record | None:
        self.read[kind] += 1
        name = str(raw.get("id"))
        try:
            record, reasons = mended(record_class, raw)
        except ValidationError as error:
            fields = {".".join(map(str, one["loc"])) for one in error.errors()}
            self.left_out.append((kind, name, f"cannot be read: {', '.join(sorted(fields))}"))
            return None
        for field, reason in reasons.items():
            key = (kind, re.sub(r"\.\d+", "", field), reason)
            count, first = self.replaced.get(key, (0, name))
            self.replaced[key] = (count + 1, first)
        return record

    def print(self) -> None:
        """Print the counts and what was replaced; raise `Refused` if a record is missing."""
        for (kind, field, reason), (count, first) in self.replaced.items():
            write(line(f"replaced in {count:,} {kind}: {field} (first: {first!r}): {reason}"))
        for kind, record_id, reason in self.left_out:
            write(line(f"left out of the {kind}: {record_id!r}: {reason}"))
        for kind in _KINDS:
            write(
                f"{kind:<14}FROM {self.read[kind]:>10,}   stored {self.stored[kind]:>10,}"
                f"   there before {self.found[kind]:>10,}"
            )
        if not self.read.total():
            raise Refused("FROM has no records of 0.1.42: look at its address")
        if missing := {kind for kind, _, _ in self.left_out}:
            raise Refused(f"not all is adopted: of {', '.join(sorted(missing))} some are left out")


def _store(place: Messages, kind: Sort, records: Sequence[Any], report: Report) -> None:
    """Store the records that are not stored yet and refer to what is, and count what is there."""
    stored = {record.id for record in place.same(kind, records)}
    report.found[kind] += len(stored)
    new = [record for record in records if record.id not in stored]
    if fit := _without_orphans(place.opened, kind, new, report):
        place.store(kind, fit)
    report.stored[kind] += len(fit)


def _without_orphans(
    store: MessageStore, kind: Sort, records: Sequence[Any], report: Report
) -> list[Any]:
    if kind == "messages":
        owners = {message.conversation_id for message in records}
        known = {each for each in owners if store.get_conversation_by_id(each) is not None}
        fit = [message for message in records if message.conversation_id in known]
    elif kind == "traces":
        messages = store.get_messages_by_ids([trace.message_id for trace in records])
        pairs = {(message.id, message.conversation_id) for message in messages}
        fit = [trace for trace in records if (trace.message_id, trace.conversation_id) in pairs]
    else:
        return list(records)
    ids = {record.id for record in fit}
    for record in records:
        if record.id not in ids:
            report.left_out.append((kind, record.id, "what it belongs to is not stored"))
    return fit


# Mending


def mended(kind: type[AnyRecord], data: dict[str, Any]) -> tuple[AnyRecord, dict[str, str]]:
    """Return a record with replacements for values that it cannot contain, and why, by field.

    NaN and infinity become null in free-form data, else the field's default; an integer beyond 64
    bits its decimal text, and in a field of integers the nearest that fits; U+0000 in a key and a
    lone surrogate U+FFFD; an empty id "unknown"; data nested deeper than the limit its JSON text.
    """
    replaced: dict[str, str] = {}
    while True:  # a replacement may be refused for another reason
        try:
            record: AnyRecord = kind.__pydantic_validator__.validate_python(data)
            require_stored(record)
            return record, replaced
        except ValidationError as error:
            found = [one for one in error.errors(include_url=False) if _replace(data, one)]
            if not found:
                raise
        replaced |= {".".join(map(str, one["loc"])): one["msg"] for one in found}


def _replace(data: Any, error: ErrorDetails) -> bool:
    """Replace a refused value in place; return whether there is a replacement."""
    *path, name = error["loc"]
    try:
        for step in path:
            data = data[step]
        value = data[name]
    except (IndexError, KeyError, TypeError):
        return False  # the field is missing
    has_default = isinstance(data, dict) and error["type"] not in ("json_value", "extra_forbidden")
    if has_default and isinstance(value, float) and not math.isfinite(value):
        del data[name]
        return True
    replacement = _plain(value)
    if not value and error["type"] == "string_too_short":
        replacement = "unknown"
    elif isinstance(value, int) and error["type"] in ("greater_than_equal", "less_than_equal"):
        replacement = min(max(value, MIN_INT), MAX_INT)
    if replacement == value:
        return False
    data[name] = replacement
    return True


def _plain(value: Any, depth: int = 1) -> Any:
    """Return free-form data with replacements for values that a back end cannot store."""
    if isinstance(value, str):
        return _SURROGATE.sub(_REPLACEMENT, value)
    if isinstance(value, int) and not MIN_INT <= value <= MAX_INT:
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (dict, list)) and depth > MAX_DEPTH:
        return json.dumps(value)
    if isinstance(value, dict):
        plain: dict[str, Any] = {}
        for key, item in value.items():
            key = _SURROGATE.sub(_REPLACEMENT, key).replace("\0", _REPLACEMENT)
            while key in plain:
                key += _REPLACEMENT
            plain[key] = _plain(item, depth + 1)
        return plain
    return [_plain(item, depth + 1) for item in value] if isinstance(value, list) else value
