"""Every field of a record of the message store has a description, which the reference shows."""

from __future__ import annotations

import inspect
import re

import pytest

from jazzmine.records import messages, traces, usage
from jazzmine.records.base import Record

RECORDS = [
    kind
    for module in (messages, traces, usage)
    for kind in map(vars(module).get, module.__all__)
    if isinstance(kind, type) and issubclass(kind, Record)
]


def described(kind: type) -> dict[str, str]:
    """Return the entries of a docstring's section `Attributes`."""
    section = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    return dict(re.findall(r"^    (\w+): (\S.*)$", section, re.MULTILINE))


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_record_is_described_in_the_order_of_the_fields(
    kind: type[Record],
) -> None:
    assert list(described(kind)) == list(kind.model_fields)


def test_a_field_without_a_description_is_noticed() -> None:
    class Undescribed(Record):
        """A record.

        Attributes:
            one: the first field.
        """

        one: int
        two: int

    assert list(described(Undescribed)) == ["one"]
