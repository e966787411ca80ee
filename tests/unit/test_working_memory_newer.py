"""Data of a newer version of the library is read and written back by this version."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from jazzmine.errors import JazzmineError, NewerFormatError
from jazzmine.records.enums import ConversationStatus
from jazzmine.records.flow import FlowRecord
from jazzmine.records.memory_base import checked_copy
from jazzmine.records.memory_copy import deep_copy, partial_copy
from jazzmine.records.memory_json import from_json, to_json
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache
from jazzmine.records.working_memory import WorkingMemory
from tests.behaviour.memory_model import updates
from tests.behaviour.memory_samples import UPDATES, Update, busy
from tests.unit.memories import flow_of

NEW = {"introduced": {"in": [1, None, "NaN"]}}


def full() -> WorkingMemory:
    """A working memory that holds a record of every kind."""
    memory = busy("c")
    memory.begin_turn(TurnCache(2, raw_entities=[{"name": "Ada"}], is_continuation=False))
    memory.record_tool_call(ToolCallRecord("search", {"q": "x"}, [1], "1 found"))
    memory.flow_history = [FlowRecord("f0", "greeting", "flow", "completed", 0, 1)]
    return memory


def records_of(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every record in a working memory's plain data."""
    suspended, turn = data["suspended_flows"], data["current_turn"]
    flows = [each for each in (data["active_flow"], *(s["flow"] for s in suspended)) if each]
    questions = [data["pending_confirmation"], *(s["confirmation"] for s in suspended)]
    yield data
    yield from (each for each in (*flows, turn, *questions) if each)
    yield from data["flow_history"] + data["topic_history"] + suspended
    yield from data["entity_workspace"].values()
    for flow in flows:
        yield from flow["tool_call_history"]
        yield from flow["slots"].values()
    yield from turn["tool_calls"] if turn else ()


def as_newer(memory: WorkingMemory) -> dict[str, Any]:
    """Return a working memory as a newer version stores it: each record has one more field."""
    data = memory.to_dict()
    for number, record in enumerate(records_of(data)):
        record["new"] = {**NEW, "number": number}
    return {"format": 1, **data}


def read_newer() -> WorkingMemory:
    return from_json(json.dumps(as_newer(full())).encode())


def stored(memory: WorkingMemory) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(to_json(memory))
    return data


def without_new(data: dict[str, Any]) -> dict[str, Any]:
    data = copy.deepcopy(data)
    del data["format"]
    for record in records_of(data):
        record.pop("new", None)
    return data


def test_unknown_fields_are_written_back_at_every_level() -> None:
    newer = as_newer(full())
    assert len(list(records_of(newer))) == 12  # of every kind

    memory = from_json(json.dumps(newer).encode())

    assert stored(memory) == newer
    assert {"format": 1, **memory.to_dict()} == newer
    assert WorkingMemory.from_dict(newer).to_dict() == memory.to_dict()


COPIES: list[Callable[[WorkingMemory], WorkingMemory]] = [
    copy.copy,
    copy.deepcopy,
    deep_copy,
    partial_copy,
    lambda memory: checked_copy(memory, WorkingMemory, "memory"),
    lambda memory: pickle.loads(pickle.dumps(memory)),
    lambda memory: from_json(to_json(memory)),
    lambda memory: WorkingMemory.from_dict(memory.to_dict()),
]


@pytest.mark.parametrize("copied", COPIES)
def test_a_copy_keeps_them(copied: Callable[[WorkingMemory], WorkingMemory]) -> None:
    memory = read_newer()

    assert stored(copied(memory)) == stored(memory)


def test_setting_a_field_keeps_them() -> None:
    memory = read_newer()
    expected = stored(memory)

    memory.status = ConversationStatus.ERROR
    flow_of(memory).slots["size"].description = "changed"

    expected["status"] = "error"
    expected["active_flow"]["slots"]["size"]["description"] = "changed"
    assert stored(memory) == expected


@pytest.mark.parametrize("update", UPDATES, ids=str)
def test_a_transition_keeps_them_in_the_records_that_stay(update: Update) -> None:
    memory = read_newer()
    before = {record["new"]["number"] for record in records_of(stored(memory))}

    update.on_memory(memory)

    kept = {record["new"]["number"] for record in records_of(stored(memory)) if "new" in record}
    # The turn's cache, its call, and the entity that was known before it.
    gone = {"begin_turn": 3}.get(update.name, 0)
    if update.name in ("start_flow", "complete_flow", "cancel_flow", "fail_flow"):
        gone = 5  # the flow, its call and its two slots, and the question
    elif update.name in ("collect_slot", "clear_slot", "request_confirmation", "confirm_action"):
        gone = 1
    assert len(before - kept) == gone
    assert 0 in kept


@given(changes=st.lists(updates, max_size=6))
@settings(max_examples=100)
def test_they_change_nothing_else(changes: list[Update]) -> None:
    memory = full()
    newer = from_json(json.dumps(as_newer(memory)).encode())

    for change in changes:
        for each in (memory, newer):
            with suppress(TypeError, ValidationError):
                change.on_memory(each)

    assert timeless(without_new(stored(newer))) == timeless(memory.to_dict())
    assert stored(newer)["new"] == {**NEW, "number": 0}


def timeless(data: Any) -> Any:
    """Return the data without times."""
    if isinstance(data, dict):
        times = ("last_updated", "called_at", "started_at", "requested_at")
        return {name: timeless(item) for name, item in data.items() if name not in times}
    return [timeless(item) for item in data] if isinstance(data, list) else data


@pytest.mark.parametrize("version", [2, 3, 2**70])
def test_a_higher_format_is_refused_as_such(version: int) -> None:
    data = json.dumps({**as_newer(full()), "format": version, "status": "confused"}).encode()

    with pytest.raises(NewerFormatError, match=f"'c' has format {version}.*upgrade") as caught:
        from_json(data)

    assert isinstance(caught.value, JazzmineError)
    assert not isinstance(caught.value, ValidationError)


@pytest.mark.parametrize("number", ["1", 1.5, None, True, [1], {}])
def test_a_format_that_is_no_number_is_no_working_memory(number: Any) -> None:
    data = json.dumps({"format": number, **full().to_dict()}).encode()

    with pytest.raises(ValidationError):
        from_json(data)


def test_unknown_fields_excuse_no_other_error() -> None:
    newer = as_newer(full())
    newer["active_flow"]["slots"]["size"]["required"] = "perhaps"

    with pytest.raises(ValidationError, match=r"slots\.size\.required"):
        from_json(json.dumps(newer).encode())


class Roomy(WorkingMemory):
    max_topic_history = 500


def test_a_subclass_with_limits_of_its_own_keeps_its_class() -> None:
    newer = as_newer(full())
    memory = from_json(json.dumps(newer).encode(), Roomy)

    assert type(memory) is Roomy
    assert type(from_json(to_json(full()), Roomy)) is Roomy
    assert type(Roomy.from_dict(full().to_dict())) is Roomy
    assert type(deep_copy(memory)) is type(partial_copy(memory)) is Roomy
    assert stored(memory) == newer
