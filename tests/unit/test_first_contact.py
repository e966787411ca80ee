"""What a program meets first: imports, names of fields, and errors that say what to do."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, date, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import jazzmine
from jazzmine import (
    Conversation,
    MemoryItem,
    Message,
    MessageRole,
    StoreUnavailableError,
    TraceFilter,
    core,
    sync,
)
from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore
from tests.servers.programs import run_python

# Where no server listens.
NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize("name", ["MessageStore", "WorkingMemoryStore", "SQLiteMessageStore"])
def test_a_store_that_is_imported_from_the_package_is_said_to_be_in_both_apis(name: str) -> None:
    with pytest.raises(ImportError) as raised:
        exec(f"from jazzmine import {name}")

    assert str(raised.value) == (
        f"{name} is in the async and in the sync API: from jazzmine.core import {name}"
        f" or from jazzmine.sync import {name}"
    )
    assert hasattr(import_module("jazzmine.core"), name)
    assert name not in dir(jazzmine)


@pytest.mark.parametrize("kind", [MessageRole, core.FlowStatus, core.ConversationStatus])
def test_a_role_or_a_status_is_its_text(kind: Any) -> None:
    for value in kind:
        assert value == value.value
        assert f"{value}" == value.value
        assert json.dumps(value) == json.dumps(value.value)


@pytest.mark.parametrize("api", ["jazzmine.core", "jazzmine.sync"])
@pytest.mark.parametrize(
    ("name", "home"), [("ConflictError", "jazzmine"), ("Keyring", "jazzmine.encryption")]
)
def test_a_name_that_is_imported_from_an_api_is_said_to_be_elsewhere(
    api: str, name: str, home: str
) -> None:
    with pytest.raises(ImportError, match=f"from {home} import {name}$"):
        exec(f"from {api} import {name}")


def test_the_package_says_its_version() -> None:
    assert jazzmine.__version__ == version("jazzmine")
    assert "__version__" not in getattr(jazzmine, "__all__")  # noqa: B009 - made at run time


def test_a_driver_that_is_too_old_is_named_with_the_version_that_is_needed(tmp_path: Path) -> None:
    old = tmp_path / "redis-4.6.0.dist-info" / "METADATA"
    old.parent.mkdir()
    old.write_text("Metadata-Version: 2.1\nName: redis\nVersion: 4.6.0\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from jazzmine.sync import WorkingMemoryStore\n"
        "WorkingMemoryStore.initialize('redis://h')\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "too old: redis 4.6.0, where" in ran.stderr


def test_the_package_can_be_run() -> None:
    command = [sys.executable, "-m", "jazzmine", "--version"]
    ran = run_python(command, capture_output=True, text=True, timeout=240)
    assert ran.stdout == f"jazzmine {jazzmine.__version__}\n", ran.stderr


@pytest.mark.parametrize(
    ("opened", "url", "driver"),
    [
        (sync.MessageStore, f"postgresql://{NOBODY}/d?timeout=1", "psycopg"),
        (sync.MessageStore, f"mongodb://{NOBODY}/d?timeout=1", "pymongo"),
        (sync.WorkingMemoryStore, f"postgresql://{NOBODY}/d?timeout=1", "psycopg"),
        (sync.WorkingMemoryStore, f"redis://{NOBODY}?timeout=1", "redis"),
        (sync.LongTermMemoryStore, f"mongodb://{NOBODY}/d?timeout=1", "pymongo"),
    ],
)
def test_a_store_whose_server_is_down_names_the_program_that_says_more(
    opened: Any, url: str, driver: str
) -> None:
    pytest.importorskip(driver)
    with pytest.raises(StoreUnavailableError, match=f"{NOBODY}.*; `jazzmine doctor` says more$"):
        opened.initialize(url)


def test_without_a_driver_the_extra_to_install_is_named() -> None:
    program = (
        "import sys; sys.modules.update(psycopg=None, pymongo=None, redis=None)\n"
        "from jazzmine.sync import MessageStore, WorkingMemoryStore\n"
        "for kind, url in ((MessageStore, 'postgresql://h/d'), (MessageStore, 'mongodb://h/d'),"
        " (WorkingMemoryStore, 'redis://h')):\n"
        "    try: kind.initialize(url)\n"
        "    except ImportError as error: print(error)\n"
    )
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for line, extra in zip(said, ("postgres", "mongodb", "redis"), strict=True):
        assert f"pip install 'jazzmine[{extra}]>=2.0'" in line


def refused(**fields: object) -> str:
    given = {"conversation_id": "c1", "user_id": "ada", "role": "user", **fields}
    with pytest.raises(ValidationError) as raised:
        Message(**given)  # type: ignore[arg-type]
    return str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("content", "original_content"), ("message", "original_content"), ("timestmp", "timestamp")],
)
def test_a_wrong_name_of_a_field_is_answered_with_the_right_one(wrong: str, meant: str) -> None:
    text = refused(**{wrong: "x"})

    assert f"\n{wrong}\n  Extra inputs are not permitted; did you mean '{meant}'?" in text


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("human", "user"), ("AI", "assistant"), ("assitant", "assistant"), ("function", "tool")],
)
def test_a_wrong_role_is_answered_with_the_right_one(wrong: str, meant: str) -> None:
    assert f"or 'tool'; did you mean '{meant}'?" in refused(role=wrong, original_content="x")


def test_an_error_lists_no_default_that_was_not_made_because_of_it() -> None:
    text = refused(original_content=3)

    assert text.startswith("1 validation error for Message\noriginal_content\n")


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


# Likely mistakes


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
