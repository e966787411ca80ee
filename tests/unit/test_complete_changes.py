"""What a new field or method needs besides its own line; each message names the place."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args
from zlib import crc32

import pytest

from jazzmine import core
from jazzmine.backends.mongodb.indexes import FORMAT
from jazzmine.core import MessageStore
from jazzmine.encryption.fields import ENCRYPTED, PARTS, READABLE
from jazzmine.records import messages, traces
from jazzmine.records.base import Record
from tests.backends.predecessor_names import names_of_source
from tests.behaviour.calls import CALLS
from tests.behaviour.model import Model
from tests.behaviour.samples import full_message, full_trace

ROOT = Path(__file__).resolve().parents[2]
BACKENDS = ROOT / "src/jazzmine/backends"
POSTGRES = BACKENDS / "postgres/migrations"
SQLITE = BACKENDS / "sqlite/migrations/messages"

RECORDS = [
    kind
    for module in (messages, traces)
    for kind in map(vars(module).get, module.__all__)
    if isinstance(kind, type) and issubclass(kind, Record)
]
each_record = pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)


def names(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d][^\W_]*(?:_[^\W_]+)*", text))


def migrations(folder: Path) -> str:
    """Return the names and the texts of a folder's migrations."""
    return "\n".join(f"{path.stem[5:]}\n{path.read_text('utf-8')}" for path in folder.glob("*.sql"))


@each_record
def test_a_field_has_a_migration(kind: type[Record]) -> None:
    """An older version would leave such records out of listings; so it must refuse the database.

    A column that PostgreSQL lacks shows in the tests of what is stored.
    """
    known = names_before(kind.__name__) | names(migrations(SQLITE)) | names(migrations(POSTGRES))
    missing = [f"{kind.__name__}.{name}" for name in kind.model_fields if name not in known]
    where = f"{SQLITE.relative_to(ROOT)} and {POSTGRES.relative_to(ROOT)}"
    assert not missing, f"name them in new migrations in {where}: {missing}"


def test_a_field_raises_the_format_of_mongodb() -> None:
    fields = sorted(f"{kind.__name__}.{name}" for kind in RECORDS for name in kind.model_fields)
    known = {1: 733_082_145}
    assert known.get(FORMAT) == crc32(repr(fields).encode()), (
        "raise FORMAT in backends/mongodb/indexes.py, and add the number of the fields here"
    )


@each_record
def test_a_field_that_holds_text_is_a_text(kind: type[Record]) -> None:
    """A `str` would accept a lone surrogate, which no back end can store."""
    bare = [
        f"{kind.__name__}.{name}"
        for name, field in kind.model_fields.items()
        if has_bare_text(field.annotation, field.metadata)
    ]
    assert not bare, f"their type is `Text` of records/types.py instead of `str`: {bare}"


@pytest.mark.parametrize("kind", READABLE, ids=lambda kind: kind.__name__)
def test_a_field_is_readable_or_encrypted_or_has_parts(kind: type[Record]) -> None:
    named = [*READABLE[kind], *ENCRYPTED[kind], *PARTS[kind]]
    assert sorted(named) == sorted(kind.model_fields), "correct encryption/fields.py"


def has_bare_text(annotation: Any, metadata: list[Any]) -> bool:
    if metadata or hasattr(annotation, "__metadata__"):
        return False
    return annotation is str or any(has_bare_text(part, []) for part in get_args(annotation))


def fields_of(kind: Any) -> list[str]:
    """Return the names of the fields of a record; none of another class."""
    if issubclass(kind, Record):
        return list(kind.model_fields)
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return []


PUBLIC = {name: getattr(core, name) for name in dir(core)}
DESCRIBED = {name: one for name, one in PUBLIC.items() if inspect.isclass(one) and fields_of(one)}


def described(kind: type) -> list[str]:
    """Return the names in a docstring's section `Attributes`, or in `Args` of a plain class."""
    _, _, section = (inspect.getdoc(kind) or "").partition(":\n    ")
    entries = re.findall(r"^(?:    )?((?:\w+, )*\w+): \S", section, re.MULTILINE)
    return [name for entry in entries for name in entry.split(", ")]


def test_every_field_of_a_record_is_described_in_the_order_of_the_fields() -> None:
    assert {"Message", "TurnTrace", "WorkingMemory", "Slot", "MemoryItem"} <= {*DESCRIBED}
    for kind in DESCRIBED.values():
        assert described(kind) == fields_of(kind), kind


def at_defaults(records: list[Record]) -> Iterator[str]:
    """Yield the fields that every record of a class leaves at their defaults."""
    by_class: dict[type[Record], list[Record]] = {}
    for record in records:
        by_class.setdefault(type(record), []).append(record)
    for kind, found in by_class.items():
        for name, field in kind.model_fields.items():
            values = [getattr(record, name) for record in found]
            if field.default_factory is not None:
                unset = not any(values)  # a list or a dict; ids and times are never empty
            else:
                unset = not field.is_required() and all(v == field.default for v in values)
            if unset:
                yield f"{kind.__name__}.{name}"
            nested = [item for value in values if isinstance(value, list) for item in value]
            yield from at_defaults([item for item in nested if isinstance(item, Record)])


@pytest.mark.parametrize("sample", [full_message(), full_trace()], ids=["message", "trace"])
def test_a_full_sample_leaves_no_field_at_its_default(sample: Record) -> None:
    unset = [name for name in at_defaults([sample]) if name != "TurnTrace.copied_from"]  # by a fork
    assert not unset, f"give these another value in tests/behaviour/samples.py: {unset}"


@cache
def predecessor() -> dict[str, Any]:
    return names_of_source()


def names_before(owner: str) -> set[str]:
    """Return the parameters, methods and attributes of a class of jazzmine 0.1.42."""
    found: set[str] = set()
    for module in predecessor().values():
        members = module["classes"].get(owner, {})
        found.update(members.get("attributes", ()), members.get("methods", ()))
        found.update(members.get("methods", {}).get("__init__", {}).get("parameters", ()))
    return found


def methods(kind: type) -> list[str]:
    """Return the names of the public methods that reach a back end."""
    return [
        name
        for name, value in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and name not in ("require_open", "open")
    ]


# It needs a search index, and has a model of its own.
SEARCH = "search_messages"


def test_a_method_is_in_the_model() -> None:
    """Random sequences of calls are compared with it."""
    missing = [name for name in CALLS if name not in ("ping", SEARCH) and not hasattr(Model, name)]
    assert not missing, f"add them to tests/behaviour/model.py and state_machine.py: {missing}"


def test_a_method_is_in_what_calls_all_of_them() -> None:
    files = ["state_machine", "log_rules", "draws"]
    source = "".join((ROOT / f"tests/behaviour/{name}.py").read_text("utf-8") for name in files)
    others = {"ping", "scoped", "search_messages"}
    missing = [
        name
        for name in methods(MessageStore)
        if name not in others and not re.search(rf"\b{name}\b", source)
    ]
    assert not missing, f"add them to tests/behaviour/{files[0]}.py: {missing}"
