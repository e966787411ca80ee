"""The content of the JSON store's file, and which files it opens or refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine.errors import ConfigurationError
from jazzmine.sync.message_store import JSONMessageStore, MessageRole, MessageStore
from tests.behaviour.samples import conversation, message, trace

# As jazzmine 0.1.42 writes it: one line, no version, every field, ASCII only.
PREDECESSOR = {
    "conversations": [
        {
            "id": "c1",
            "user_id": "u1",
            "agent_id": "a1",
            "title": "Tea",
            "created_at": 1,
            "last_updated_at": 2,
        }
    ],
    "messages": [
        {
            "id": message_id,
            "conversation_id": "c1",
            "user_id": "u1",
            "role": "assistant",
            "original_content": "Grüß Gott",
            "enhanced_message": "",
            "explicit_context": None,
            "episode_id": 0,
            "sentiment_score": 0.0,
            "intent": "unknown",
            "entities": [{"name": "tea", "attributes": ["green"]}],
            "is_cancellation": False,
            "is_continuation": True,
            "is_flagged": False,
            "timestamp": 5,
            "invoked_flows": None,
            "invoked_tools": ["kettle"],
            "reasoning_steps": None,
            "errors": None,
        }
        for message_id in ("z", "a")
    ],
    "turn_traces": [
        {
            "id": "t1",
            "message_id": "z",
            "conversation_id": "c1",
            "user_id": "u1",
            "agent_id": "a1",
            "turn_number": 1,
            "started_at_ms": 1,
            "ended_at_ms": 2,
            "total_latency_ms": 1,
            "emission_records": [
                {"id": "e1", "timestamp": "2025-01-02T03:04:05.000006", "type": "llm"}
            ],
        }
    ],
}


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


def test_opening_writes_nothing(path: Path) -> None:
    open_store(path).close()

    assert list(path.parent.iterdir()) == []


def test_a_file_of_the_predecessor_opens(path: Path) -> None:
    path.write_text(json.dumps(PREDECESSOR))

    with open_store(path) as store:
        messages = store.get_messages_by_conversation_id("c1")
        turn = store.get_turn_trace_by_message_id("z")

    assert [m.id for m in messages] == ["z", "a"]
    assert messages[0].role is MessageRole.ASSISTANT
    assert messages[0].entities[0].attributes == ["green"]
    assert turn is not None
    assert turn.emission_records[0].timestamp.isoformat() == "2025-01-02T03:04:05.000006+00:00"


def test_a_file_of_the_predecessor_keeps_its_records_when_it_is_written(path: Path) -> None:
    path.write_text(json.dumps(PREDECESSOR))
    with open_store(path) as store:
        before = store.get_message_by_id("a")
        store.store_message(message("new", conversation_id="c1", timestamp=5))

    with open_store(path) as store:
        ids = [m.id for m in store.get_messages_by_conversation_id("c1")]
        assert ids == ["z", "a", "new"]
        assert store.get_message_by_id("a") == before


def test_a_pretty_printed_file_opens(filled: Path) -> None:
    filled.write_text(json.dumps(json.loads(filled.read_text()), indent=2))

    with open_store(filled) as store:
        assert len(store.get_messages_by_conversation_id("c1")) == 2


def test_fields_that_the_predecessor_needs_are_in_our_file(filled: Path) -> None:
    data = json.loads(filled.read_text())

    assert "metadata" not in data["messages"][0]
    assert {"id", "conversation_id", "user_id", "role", "timestamp"} <= set(data["messages"][0])
    assert {"id", "message_id", "turn_number", "started_at_ms"} <= set(data["turn_traces"][0])


def refused(path: Path) -> str:
    before = path.read_bytes()
    with pytest.raises(json.JSONDecodeError) as caught:
        open_store(path)
    assert path.read_bytes() == before
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_truncated_file_is_refused_with_its_line_and_column(filled: Path) -> None:
    content = filled.read_bytes()
    filled.write_bytes(content[: len(content) // 2])

    text = refused(filled)

    assert "line" in text
    assert "column" in text


@pytest.mark.parametrize("content", [b"", b"[1", b"\xff\xfe{}", b'{"a": "\\ud800', b"[" * 100_000])
def test_invalid_json_is_refused_with_its_line_and_column(path: Path, content: bytes) -> None:
    path.write_bytes(content)

    with pytest.raises(json.JSONDecodeError, match="line 1 column") as caught:
        open_store(path)

    assert str(path) in str(caught.value)


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
        (lambda _: {"version": 3, "conversations": []}, "a newer version of jazzmine"),
        (lambda _: {"messages": ["hello"]}, r"messages\[0\] .*jazzmine adopt"),
        (lambda _: {"messages": {}}, r"messages breaks a rule.*jazzmine adopt"),
        (lambda data: spoilt(data, "messages", timestamp="soon"), r"messages\[0\] \(id 'm1'\)"),
        (lambda data: spoilt(data, "messages", language="en"), r"language.*jazzmine adopt"),
        (lambda data: spoilt(data, "conversations", user_id=""), r"user_id.*jazzmine adopt"),
        (lambda data: spoilt(data, "messages", sentiment_score=float("nan")), "sentiment_score"),
        (lambda data: with_first_twice(data, "messages"), r"messages\[2\] \(id 'm1'\)"),
        (lambda data: with_first_twice(data, "turn_traces", id="t2"), "message_id"),
        (without_conversations, r"messages with the id 'm1' has no owner.*jazzmine adopt"),
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


def test_an_object_without_anything_is_an_empty_store(path: Path) -> None:
    path.write_text("{}")

    with open_store(path) as store:
        assert store.get_conversations_by_user_id("u1") == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('{"id":"m1"', '{"id":"m2"', "an earlier record has the same id"),
        ('"role":"user"', '"role":"king"', "role"),
        ('"turn_traces": [', '"messages": [\n],\n"turn_traces": [', "'messages' twice"),
    ],
)
def test_a_line_that_breaks_a_rule_is_refused(filled: Path, old: str, new: str, said: str) -> None:
    filled.write_text(filled.read_text().replace(old, new, 1))

    with pytest.raises(ConfigurationError, match=said):
        open_store(filled)


@pytest.mark.parametrize(("old", "new"), [("},\n", "}\n"), ("}\n]", "},\n]"), ("{", '{"\udcff')])
def test_an_edit_that_leaves_no_json_is_refused_by_line_and_column(
    filled: Path, old: str, new: str
) -> None:
    text = filled.read_text()
    filled.write_text(text.replace(old, new, 1), errors="surrogateescape")

    assert "column" in refused(filled)
