"""The full samples set every field, so that no field is stored and read back untested."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from jazzmine import Conversation, Message
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


def test_a_conversation_and_a_message_have_ids_and_times_of_their_own() -> None:
    before = time.time_ns() // 1_000_000
    whole = Conversation(user_id="u1", agent_id="a1")
    fields: Any = {"conversation_id": whole.id, "user_id": "u1", "role": "user"}
    said = [Message(original_content="hello", **fields) for _ in range(20)]
    after = time.time_ns() // 1_000_000

    assert before <= whole.created_at <= said[-1].timestamp <= after
    assert (whole.last_updated_at, whole.title) == (whole.created_at, "")
    assert len({whole.id, *(one.id for one in said)}) == 21
    assert len(whole.id) == len(said[0].id) == 36
