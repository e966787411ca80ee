"""The columns of the three tables in SQL, derived from the records' own fields."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import get_args

from pydantic.fields import FieldInfo

from jazzmine.records.base import Record
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace

_EMPTY: dict[object, str] = {list: "'[]'", dict: "'{}'"}
_TYPES: dict[object, str] = {str: "text", int: "bigint", float: "float8", bool: "boolean"}


@dataclass(frozen=True)
class Table:
    """A table with one column for each field of its records, in the order of the fields.

    It also has an identity column, `seq`: the order in which ids were first stored.

    Args:
        name: the table's name in the schema.
        kind: the class of its records.
    """

    name: str
    kind: type[Record]

    @property
    def columns(self) -> str:
        """The names of the columns, as a list in SQL."""
        return ", ".join(self.kind.model_fields)

    @property
    def definitions(self) -> str:
        """The names and types of the columns, for reading a record from JSON."""
        return ", ".join(f"{name} {kind}" for name, kind in self.types.items())

    @property
    def types(self) -> dict[str, str]:
        """The type of each column."""
        return {name: _type_of(field) for name, field in self.kind.model_fields.items()}

    def is_nullable(self, name: str) -> bool:
        """Return whether a column may be null."""
        return type(None) in get_args(self.kind.model_fields[name].annotation)

    @property
    def defaults(self) -> dict[str, str | None]:
        """The default of each field as SQL; None if it is null, computed or missing."""
        return {name: _literal(field) for name, field in self.kind.model_fields.items()}

    @property
    def values(self) -> str:
        """The values to store; a field that is not in the JSON of a record gets its default."""
        return ", ".join(
            _value(name, field) if self.kind.omits_defaults else name
            for name, field in self.kind.model_fields.items()
        )

    def replacements(self, key: str) -> str:
        """The assignments of an upsert to the row with the same key.

        They leave out the key: setting it, even to the same value, would lock the row against
        writes of rows that refer to it.
        """
        names = (name for name in self.kind.model_fields if name != key)
        return ", ".join(f"{name} = excluded.{name}" for name in names)

    @property
    def qualified(self) -> str:
        """The name of the table with its schema."""
        return f"$schema.{self.name}"


def _type_of(field: FieldInfo) -> str:
    kind = field.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "text"
    return _TYPES.get(kind, "jsonb")


def _value(name: str, field: FieldInfo) -> str:
    default = _literal(field)
    return name if default is None else f"coalesce({name}, {default})"


def _literal(field: FieldInfo) -> str | None:
    """Return the field's default as SQL, or None if it is null, computed or missing."""
    if field.is_required():
        return None
    if field.default_factory is not None:
        return _EMPTY.get(field.default_factory)
    default = field.default
    if isinstance(default, str):
        return "'{}'".format(default.replace("'", "''"))
    return None if default is None else repr(default).lower()


CONVERSATIONS = Table("conversations", Conversation)
MESSAGES = Table("messages", Message)
TURN_TRACES = Table("turn_traces", TurnTrace)
