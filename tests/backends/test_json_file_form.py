"""The content of the JSON store's file, and which files it opens or refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

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


def test_records_of_the_predecessor_without_their_conversation_are_kept(path: Path) -> None:
    path.write_text(json.dumps({**PREDECESSOR, "conversations": []}))

    with open_store(path) as store:
        assert len(store.get_messages_by_conversation_id("c1")) == 2
        assert store.flag_message("z")
        assert store.delete_conversation("c1") is False
        assert store.get_messages_by_conversation_id("c1") == []
        assert store.get_turn_trace_by_id("t1") is None


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
    with pytest.raises((ValidationError, json.JSONDecodeError)) as caught:
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


PACKAGE = '{"name": "web", "version": "1.0.0", "scripts": {}, "license": "MIT", "private": true}'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "it is a list"),
        ('"x"', "it is a string"),
        ("3", "it is a number"),
        ("null", "it is null"),
        ('{"a": 1}', "it has 'a'"),
        ('{"conversations": [], "massages": []}', "it has 'massages'"),
        (PACKAGE, "it has 'name', 'scripts', 'license' and more"),
        ('{"version": 3, "packages": {}}', "it has 'packages'"),
        ('{"messages": [{"role": "user"}]}', "it has no record with 'id' or 'user_id'"),
    ],
)
def test_json_of_another_program_is_refused_in_plain_words(
    path: Path, content: str, said: str
) -> None:
    path.write_text(content)

    assert f"this file is no message store: {said}, and a store is an object" in refused(path)
    assert path.read_text() == content


@pytest.mark.parametrize("more", ["", ', "spans": []'])
def test_a_file_of_a_newer_version_is_refused_in_plain_words(path: Path, more: str) -> None:
    path.write_text(f'{{"version": 3, "conversations": []{more}}}')

    assert "a newer version of jazzmine wrote this file, in version 3" in refused(path)


@pytest.mark.parametrize(
    ("section", "fields", "place"),
    [
        ("conversations", {"topic": "tea"}, "conversations.0.topic"),
        ("messages", {"language": "en"}, "messages.0.language"),
        ("turn_traces", {"llm_calls": [{"seed": 1}]}, "turn_traces.0.llm_calls.0.seed"),
    ],
)
def test_a_field_of_a_newer_version_is_refused_by_name_and_hides_no_record(
    filled: Path, section: str, fields: dict[str, object], place: str
) -> None:
    written = filled.read_text()
    with open_store(filled) as older:
        data = json.loads(written)
        data[section][0] |= fields
        filled.write_text(json.dumps(data))

        for use in (
            lambda: open_store(filled),
            lambda: older.get_messages_by_conversation_id("c1"),
            lambda: older.store_message(message("m3")),
        ):
            with pytest.raises(ValidationError, match="no such field; the file was not") as caught:
                use()
            assert place in str(caught.value)
        assert json.loads(filled.read_text()) == data
        filled.write_text(written)
        assert len(older.get_messages_by_conversation_id("c1")) == 2


def test_an_object_without_anything_is_an_empty_store(path: Path) -> None:
    path.write_text("{}")

    with open_store(path) as store:
        assert store.get_conversations_by_user_id("u1") == []


def test_records_of_another_program_are_refused_without_an_error_for_each(path: Path) -> None:
    path.write_text(json.dumps({"messages": ["hello"] + 99 * [{"user_id": "u1"}]}))

    text = refused(path)

    assert "messages.0\n  Input should be an object" in text
    assert "90 more errors like these" in text
    assert text.count("\n") < 50


def test_a_duplicate_id_is_refused_with_its_place(filled: Path) -> None:
    data = json.loads(filled.read_text())
    data["messages"].append(data["messages"][0])
    filled.write_text(json.dumps(data))

    text = refused(filled)

    assert "messages.2.id" in text
    assert "'m1'" in text


def test_a_duplicate_line_is_refused_with_its_place(filled: Path) -> None:
    lines = filled.read_text().splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if '"m1"' in line)
    lines.insert(first, lines[first])
    filled.write_text("".join(lines))

    assert "messages.1.id" in refused(filled)


def test_two_traces_of_one_message_are_refused(filled: Path) -> None:
    data = json.loads(filled.read_text())
    data["turn_traces"].append({**data["turn_traces"][0], "id": "another"})
    filled.write_text(json.dumps(data))

    assert "turn_traces.1.message_id" in refused(filled)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("timestamp", "soon", "valid integer"),
        ("role", "king", "'assistant'"),
        ("original_content", None, "valid string"),
    ],
)
def test_a_wrong_value_is_reported_with_its_record_and_field_and_hides_no_other(
    filled: Path, field: str, value: object, said: str
) -> None:
    data = json.loads(filled.read_text())
    data["messages"][1][field] = value
    filled.write_text(json.dumps(data))

    with open_store(filled) as store:
        assert [m.id for m in store.get_messages_by_conversation_id("c1")] == ["m1"]
        with pytest.raises(ValidationError, match=field) as caught:
            store.get_message_by_id("m2")

    assert "'m2'" in str(caught.value)
    assert said in str(caught.value)
    assert "delete_message" in str(caught.value)


def test_a_record_that_cannot_be_read_is_kept_when_the_file_is_written(filled: Path) -> None:
    data = json.loads(filled.read_text())
    data["messages"][0] |= {"role": "king", "metadata": {"colour": [float("nan"), 2**70]}}
    filled.write_text(json.dumps(data))

    for new in ("m3", "m4"):
        with open_store(filled) as store:
            store.store_message(message(new))

    with open_store(filled) as store, pytest.raises(ValidationError, match="role"):
        store.get_message_by_id("m1")
    stored = json.loads(filled.read_text())["messages"]
    assert [m["id"] for m in stored] == ["m1", "m2", "m3", "m4"]
    assert stored[0]["role"] == "king"
    assert stored[0]["metadata"] == {"colour": [None, str(2**70)]}


def test_a_record_that_cannot_be_read_is_replaced_or_deleted(filled: Path) -> None:
    data = json.loads(filled.read_text())
    for stored in (*data["messages"], *data["conversations"], *data["turn_traces"]):
        stored["metadata"] = "red"
    filled.write_text(json.dumps(data))

    with open_store(filled) as store:
        assert store.get_messages_by_user_id("u1") == []
        store.store_conversation(conversation("c1"))
        store.store_message(message("m2"))
        store.store_turn_trace(trace("m2"))
        assert store.delete_message("m1")

    with open_store(filled) as store:
        assert store.get_conversations_by_user_id("u1") == [conversation("c1")]
        assert store.get_messages_by_user_id("u1") == [message("m2")]
        assert store.get_turn_traces_by_agent_id("a1") == [trace("m2")]
    assert "red" not in filled.read_text()


def test_a_record_without_an_id_is_refused_with_its_place(filled: Path) -> None:
    data = json.loads(filled.read_text())
    del data["messages"][1]["id"]
    filled.write_text(json.dumps(data))

    assert "messages.1.id" in refused(filled)


def test_a_missing_comma_between_lines_is_refused(filled: Path) -> None:
    content = filled.read_text()
    filled.write_text(content.replace("},\n", "}\n", 1))

    assert "delimiter" in refused(filled)


def test_a_comma_after_the_last_line_is_refused(filled: Path) -> None:
    content = filled.read_text()
    filled.write_text(content.replace("}\n]", "},\n]", 1))

    assert "line" in refused(filled)


def test_a_section_that_is_in_the_file_twice_is_refused(filled: Path) -> None:
    text = filled.read_text().replace('"turn_traces": [', '"messages": [\n],\n"turn_traces": [')
    filled.write_text(text)

    with pytest.raises(ValidationError, match=r"(?s)messages.*twice") as failed:
        open_store(filled)

    assert str(filled) in str(failed.value)
    assert filled.read_text() == text


def test_a_record_that_is_nested_very_deeply_hides_no_other(filled: Path) -> None:
    deep = '{"a": ' * 1500 + "1" + "}" * 1500
    line = json.dumps({**json.loads(message("deep").model_dump_json()), "metadata": {"deep": 1}})
    text = filled.read_text().replace(
        '"messages": [\n', '"messages": [\n' + line.replace('{"deep": 1}', deep) + ",\n"
    )
    filled.write_text(text)

    with open_store(filled) as store:
        found = store.get_message_by_id("deep")
        assert found is not None
        assert len(store.get_messages_by_conversation_id("c1")) > 1
        store.store_message(message("another"))
    assert '\\"a\\"' in filled.read_text()


def test_a_file_that_is_not_utf_8_is_refused_by_name(filled: Path) -> None:
    filled.write_bytes(filled.read_bytes().replace(b'"id"', b'"\xffid"', 1))

    with pytest.raises(json.JSONDecodeError, match="not UTF-8") as failed:
        open_store(filled)

    assert str(filled) in str(failed.value)
