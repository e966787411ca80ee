"""Every field of a public record has a description, which the reference shows."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import pytest

from jazzmine import core
from jazzmine.records.base import Record


def fields_of(kind: Any) -> list[str]:
    """Return the names of the fields of a record; none of another class."""
    if issubclass(kind, Record):
        return list(kind.model_fields)
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return []


CLASSES = [one for one in (getattr(core, name) for name in dir(core)) if inspect.isclass(one)]
RECORDS = [kind for kind in CLASSES if fields_of(kind)]


def described(kind: type) -> list[str]:
    """Return the names in a docstring's section `Attributes`, or in `Args` of a plain class."""
    _, _, section = (inspect.getdoc(kind) or "").partition(":\n    ")
    entries = re.findall(r"^(?:    )?((?:\w+, )*\w+): \S", section, re.MULTILINE)
    return [name for entry in entries for name in entry.split(", ")]


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_record_is_described_in_the_order_of_the_fields(
    kind: type,
) -> None:
    assert described(kind) == fields_of(kind)


def test_the_records_of_all_three_kinds_of_store_are_among_them() -> None:
    names = {kind.__name__ for kind in RECORDS}
    assert {"Message", "TurnTrace", "WorkingMemory", "Slot", "MemoryItem"} <= names


def test_a_field_without_a_description_is_noticed() -> None:
    class Undescribed(Record):
        """A record.

        Attributes:
            one: the first field.
        """

        one: int
        two: int

    assert described(Undescribed) == ["one"]
