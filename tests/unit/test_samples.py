"""The full samples set every field, so that no field is stored and read back untested."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jazzmine.records.base import Record
from tests.behaviour.samples import full_message, full_trace


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
