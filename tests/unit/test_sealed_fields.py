"""Each field of each record is sealed in an encrypted store, or named as readable there."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from jazzmine import Conversation, MemoryItem, Message, TurnTrace
from jazzmine.encryption.fields import ENCRYPTED, PARTS, READABLE
from jazzmine.records.base import Record


def nested_in(annotation: Any) -> type[Record] | None:
    [element, *_] = get_args(annotation) or [None]
    return element if isinstance(element, type) and issubclass(element, Record) else None


def kinds_in(kind: type[Record]) -> list[type[Record]]:
    """Return a class, and those of the records in its lists that are not encrypted as a whole."""
    found = [kind]
    for name, field in kind.model_fields.items():
        nested = nested_in(field.annotation)
        if nested is not None and name not in ENCRYPTED[kind]:
            found += kinds_in(nested)
    return found


KINDS = [each for kind in (Conversation, Message, TurnTrace, MemoryItem) for each in kinds_in(kind)]


def test_no_other_record_is_named() -> None:
    assert set(KINDS) == set(ENCRYPTED) == set(READABLE)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_field_is_sealed_or_readable_or_a_list_of_records(kind: type[Record]) -> None:
    named = [*ENCRYPTED[kind], *READABLE[kind], *PARTS.get(kind, ())]

    assert sorted(named) == sorted(kind.model_fields)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_lists_of_records_are_those_that_the_class_has(kind: type[Record]) -> None:
    lists = {
        name: nested
        for name, field in kind.model_fields.items()
        if (nested := nested_in(field.annotation)) and name not in ENCRYPTED[kind]
    }

    assert dict(PARTS.get(kind, {})) == lists


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_stands_in_place_of_a_sealed_field_is_its_default(kind: type[Record]) -> None:
    for name, empty in ENCRYPTED[kind].items():
        field = kind.model_fields[name]
        if not field.is_required():
            made = field.get_default(call_default_factory=True, validated_data={})
            assert made == empty
            assert type(made) is type(empty)
