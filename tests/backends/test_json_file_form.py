"""The content of the JSON store's file, and which files it opens or refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine.errors import ConfigurationError
from jazzmine.sync.message_store import JSONMessageStore, MessageStore
from tests.behaviour.samples import conversation, message, trace


def open_store(path: Path, **options: Any) -> JSONMessageStore:
    store = MessageStore.initialize({"storage": "json", "path": str(path), **options})
    assert isinstance(store, JSONMessageStore)
    return store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages.json"


@pytest.fixture
def filled(path: Path) -> Path:
    with open_store(path) as store:
        store.store_turn(
            conversation=conversation("c1"),
            messages=[message("m1"), message("m2")],
            trace=trace("m2"),
        )
    return path


def test_the_file_is_one_json_object_with_one_record_a_line(filled: Path) -> None:
    content = filled.read_text()

    assert list(json.loads(content)) == ["version", "conversations", "messages", "turn_traces"]
    records = [line for line in content.splitlines() if line.startswith('{"id"')]
    assert len(records) == 4


def test_a_changed_record_changes_one_line(filled: Path) -> None:
    before = filled.read_text().splitlines()

    with open_store(filled) as store:
        store.update_message(message("m1", original_content="changed"))

    after = filled.read_text().splitlines()
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_nothing_is_written_when_nothing_changes(filled: Path) -> None:
    before = os.stat(filled).st_ino

    with open_store(filled) as store:
        store.store_message(message("m1"))
        store.delete_message("nobody")
        store.flag_message("m1", False)

    assert os.stat(filled).st_ino == before


@pytest.mark.parametrize(("before", "end"), [(b"\xef\xbb\xbf", b"\n"), (b"", b"\r\n")])
def test_a_file_that_an_editor_on_windows_has_saved_is_read(
    filled: Path, before: bytes, end: bytes
) -> None:
    filled.write_bytes(before + filled.read_bytes().replace(b"\n", end))

    with open_store(filled) as store:
        assert store.get_message_by_id("m1") is not None
        store.delete_message("m1")
        assert store.get_message_by_id("m1") is None


@pytest.mark.parametrize("content", [b"", b"[1", b"\xff\xfe{}", b'{"a": "\\ud800', b"[" * 100_000])
def test_invalid_json_is_refused_with_its_line_and_column_and_not_touched(
    path: Path, content: bytes
) -> None:
    path.write_bytes(content)

    with pytest.raises(json.JSONDecodeError, match="line 1 column") as caught:
        open_store(path)

    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


def spoilt(data: dict[str, Any], section: str, **fields: object) -> dict[str, Any]:
    data[section][0] |= fields
    return data


def without_conversations(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "conversations": []}


def with_first_twice(data: dict[str, Any], section: str, **changes: object) -> dict[str, Any]:
    data[section].append({**data[section][0], **changes})
    return data


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _: [], "is no message store"),
        (lambda _: {"a": 1}, "is no message store"),
        (lambda _: {"conversations": [], "massages": []}, "is no message store"),
        (lambda data: {**data, "search": 1}, "search breaks a rule: is no language"),
        (lambda _: {"version": 2, "conversations": []}, "a newer version of jazzmine"),
        (lambda _: {"messages": ["hello"]}, r"messages\[0\] .*jazzmine adopt"),
        (lambda _: {"messages": {}}, r"messages breaks a rule.*jazzmine adopt"),
        (lambda data: spoilt(data, "messages", timestamp="soon"), r"messages\[0\] \(id 'm1'\)"),
        (lambda data: spoilt(data, "messages", language="en"), r"language.*jazzmine adopt"),
        (lambda data: spoilt(data, "conversations", user_id=""), r"user_id.*jazzmine adopt"),
        (lambda data: spoilt(data, "messages", sentiment_score=float("nan")), "sentiment_score"),
        (lambda data: with_first_twice(data, "messages"), r"messages\[2\] \(id 'm1'\)"),
        (lambda data: with_first_twice(data, "turn_traces", id="t2"), "message_id"),
        (
            without_conversations,
            r"messages \(id 'm1'\) .* its owner is not in the file.*jazzmine adopt",
        ),
    ],
)
def test_what_is_no_store_or_breaks_a_rule_is_refused_and_not_touched(
    filled: Path, change: Callable[[dict[str, Any]], object], said: str
) -> None:
    with open_store(filled) as older:
        filled.write_text(json.dumps(change(json.loads(filled.read_text()))))
        content = filled.read_bytes()

        for use in (
            lambda: open_store(filled),
            lambda: older.get_messages_by_conversation_id("c1"),
            lambda: older.store_message(message("m3")),
        ):
            with pytest.raises(ConfigurationError, match=said) as caught:
                use()
            assert str(filled) in str(caught.value)
        assert filled.read_bytes() == content


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('{"id":"m1"', '{"id":"m2"', "UNIQUE constraint failed: stored_messages.id"),
        ('"role":"user"', '"role":"king"', "role"),
        ('"turn_traces": [', '"messages": [\n],\n"turn_traces": [', "'messages' twice"),
    ],
)
def test_a_line_that_breaks_a_rule_is_refused(filled: Path, old: str, new: str, said: str) -> None:
    filled.write_text(filled.read_text().replace(old, new, 1))

    with pytest.raises(ConfigurationError, match=said):
        open_store(filled)
