"""Every field of a public record has a description, which the reference shows."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

from jazzmine import core
from jazzmine.records.base import Record


def fields_of(kind: Any) -> list[str]:
    """Return the names of the fields of a record; none of another class."""
    if issubclass(kind, Record):
        return list(kind.model_fields)
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return []


PUBLIC = {name: getattr(core, name) for name in dir(core)}
RECORDS = {name: one for name, one in PUBLIC.items() if inspect.isclass(one) and fields_of(one)}


def described(kind: type) -> list[str]:
    """Return the names in a docstring's section `Attributes`, or in `Args` of a plain class."""
    _, _, section = (inspect.getdoc(kind) or "").partition(":\n    ")
    entries = re.findall(r"^(?:    )?((?:\w+, )*\w+): \S", section, re.MULTILINE)
    return [name for entry in entries for name in entry.split(", ")]


def test_every_field_of_a_record_is_described_in_the_order_of_the_fields() -> None:
    assert {"Message", "TurnTrace", "WorkingMemory", "Slot", "MemoryItem"} <= {*RECORDS}
    for kind in RECORDS.values():
        assert described(kind) == fields_of(kind), kind
