"""What is likely to be a mistake is an error that says what to do, or a line in the log."""

from __future__ import annotations

import copy
import logging
import pickle
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine import MemoryItem, Message, MessageRole, TraceFilter, core, sync
from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore
from tests.servers.programs import run_python


@pytest.mark.parametrize("make", [pickle.dumps, copy.copy, copy.deepcopy], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", [MessageStore, WorkingMemoryStore, LongTermMemoryStore])
def test_a_store_is_neither_copied_nor_pickled(kind: Any, make: Callable[[Any], Any]) -> None:
    with (
        kind.initialize("memory:") as store,
        pytest.raises(TypeError, match="open one from its configuration"),
    ):
        make(store)


def test_no_private_name_is_suggested() -> None:
    with MessageStore.initialize("memory:") as store, pytest.raises(AttributeError) as raised:
        store.get_messages("c1")  # type: ignore[attr-defined]
    said = "".join(traceback.format_exception(raised.value))
    assert "no attribute 'get_messages'" in said
    assert "'_" not in said


STORES = [one for one in dir(sync) if one.endswith("Store") and not one.startswith("InMemory")]


@pytest.mark.parametrize("given", ["memory:", {"path": "messages.db"}, None], ids=repr)
@pytest.mark.parametrize("api", [core, sync], ids=["core", "sync"])
@pytest.mark.parametrize("name", STORES)
def test_a_constructor_names_initialize(name: str, api: Any, given: Any) -> None:
    with pytest.raises(TypeError, match=r"initialize\(\)"):
        getattr(api, name)(given)


def test_a_store_of_another_kind_is_not_called_inside_of_update() -> None:
    with (
        MessageStore.initialize("memory:") as store,
        WorkingMemoryStore.initialize("memory:") as memory,
    ):
        memory.get_or_create("c1", "ada", "desk")
        with pytest.raises(RuntimeError, match="has called a store"):
            memory.update("c1", lambda wm: bool(store.get_message_by_id("m1")))
        assert store.get_message_by_id("m1") is None


class Note(Message):
    """A kind of record that no other test has made."""


def said(kind: type[Message] = Message, **fields: Any) -> Message:
    given = {"conversation_id": "c1", "user_id": "ada", "role": MessageRole.USER, **fields}
    return kind(original_content="Hello", **given)


def test_another_unit_than_ms_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        said(Note, timestamp=1_764_000_000)
    said(Note, timestamp=1_764_000_000_000)
    said(Note, timestamp=1_764_000_000_000_000_000)
    said(Note, timestamp=2**63 - 1)  # no end
    assert caplog.messages == [
        "Note.timestamp is before 1990: it is in ms since 1970, not in seconds",
        "Note.timestamp is after 2500: it is in ms since 1970, not in microseconds or nanoseconds",
    ]


def test_milliseconds_in_place_of_seconds_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    address = "memory:?timeout=30000&lock_timeout=15&ttl_seconds=86400"
    WorkingMemoryStore.initialize(address).close()
    assert set(caplog.messages) == {"timeout is 30000 s: it is in seconds, not in ms"}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (date(2026, 1, 31), r"of type datetime\.date; take its isoformat\(\)"),
        (TraceFilter(), r"of type jazzmine\.records\.usage\.TraceFilter; take its model_dump\(\)"),
        ({1}, "of type set "),
    ],
)
def test_a_value_that_json_cannot_hold_is_named_with_what_it_can(value: Any, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        said(metadata={"value": value})


def test_seconds_are_logged_wherever_a_program_gives_a_time() -> None:
    program = (
        "from jazzmine.sync import MemoryItem, MessageStore, TraceFilter\n"
        "seconds = 1_764_000_000\n"
        "with MessageStore.initialize({'storage': 'memory', 'search': True}) as store:\n"
        "    store.prune_conversations(before=seconds)\n"
        "    store.search_messages('tea', since=seconds, until=seconds * 1000)\n"
        "TraceFilter(started_from=seconds, started_until=None)\n"
        "MemoryItem(namespace=('notes',), key='tea', value={}, expires_at=seconds)\n"
    )
    ran = run_python([sys.executable, "-c", program], capture_output=True, text=True)
    assert [line.partition(" is before 1990")[0] for line in ran.stderr.splitlines()] == [
        "the argument before",
        "the argument since",
        "TraceFilter.started_from",
        "MemoryItem.expires_at",
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda moment: said(timestamp=moment),
        lambda moment: TraceFilter(started_from=moment),
        lambda moment: MemoryItem(namespace=("a",), key="k", value={}, expires_at=moment),
    ],
)
def test_the_unit_of_a_moment_is_named(make: Any) -> None:
    with pytest.raises(ValidationError, match="ms since 1970, UTC"):
        make(datetime.now(UTC))


def test_the_log_says_what_is_taken_where_nothing_was_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAZZMINE_WORKING_MEMORY", raising=False)
    WorkingMemoryStore.initialize().close()
    [record] = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert record.getMessage().startswith("JAZZMINE_WORKING_MEMORY is not set")
