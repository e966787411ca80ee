"""A sealed value that is moved, changed or left out does not open, wherever it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine import Entity, Message
from jazzmine.encryption.items import ItemCodec
from jazzmine.encryption.keyring import context
from jazzmine.encryption.records import RecordCodec
from jazzmine.encryption.states import StateForm
from jazzmine.errors import DecryptionError
from jazzmine.records.base import Snapshot
from jazzmine.records.encrypted import ENCRYPTED_KEY
from jazzmine.records.item_paths import path_of
from jazzmine.records.item_rows import ItemChange
from jazzmine.records.rows import RowDecoder
from jazzmine.records.stored_memory import Stored
from jazzmine.records.working_memory import WorkingMemory
from tests.behaviour.memory_samples import busy
from tests.encryption.keys import (
    FIRST,
    SECOND,
    WORD,
    keyring,
    secret_conversation,
    secret_item,
    secret_message,
    secret_trace,
)

# The sealed records, by what they are.

RECORDS = RecordCodec(keyring(FIRST), accepts_plain=False)
KINDS: dict[str, Any] = {
    "conversation": secret_conversation(),
    "message": secret_message(),
    "trace": secret_trace(),
}
each_kind = pytest.mark.parametrize("name", KINDS)


def stored(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDS.encrypted(Snapshot(KINDS[name])).json)
    return found


def does_not_open(name: str, fields: dict[str, Any], codec: RecordCodec = RECORDS) -> None:
    decoder = RowDecoder(type(KINDS[name]), codec)
    # A back end returns documents, or JSON.
    for body in (json.dumps(fields), fields):
        with pytest.raises(DecryptionError, match=f"^{name} ") as raised:
            decoder.records([(fields["id"], body)])
        assert WORD not in str(raised.value)


@each_kind
def test_a_record_opens_where_it_was_sealed(name: str) -> None:
    record, fields = KINDS[name], stored(name)
    decoder = RowDecoder(type(record), RECORDS)

    for body in (json.dumps(fields), fields):
        assert decoder.records([(fields["id"], body)]) == [record]


# What version 1.2 has made of a message.
EARLIER = (
    "k1:4PD9J8gLDBOPVgXt1qNG1dAuf16+jwi/qaG5iPUJK9VdrbfNAucroWR4YJJ3dNsRwFNHtRIfRmDbl"
    "h6yek+syGdG0AOAqwMoczttoc8W2ZljvcDFi3eGt8a41U9Vct2XZPwxZYHQzNMIySHaT+7C7zY6NE49E"
    "m8kf+J23J1qIQDjTQ=="
)


def test_what_an_earlier_version_has_encrypted_opens() -> None:
    fields = {
        "id": "m1",
        "conversation_id": "c1",
        "user_id": "u1",
        "role": "user",
        "original_content": "",
        "timestamp": 1700000000000,
    }
    stored = json.dumps({**fields, "metadata": {ENCRYPTED_KEY: EARLIER}})
    [message] = RowDecoder(Message, RECORDS).records([("m1", stored)], "c1")

    assert message.original_content == "xylophone"
    assert message.entities == [Entity(name="knee", attributes=["left"])]
    assert message.metadata == {"a": 1}


def test_a_record_with_an_encrypted_value_of_another_type_is_left_out_of_lists(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ring, decoder = keyring(FIRST), RowDecoder(Message, RECORDS)
    bound_to = context("message", "fields", "c1", "m2")
    text = ring.encrypt_text(json.dumps({"sentiment_score": WORD}).encode(), bound_to)
    wrong = {**stored("message"), "id": "m2", "metadata": {ENCRYPTED_KEY: text}}
    rows = [("m3", "{"), ("m2", json.dumps(wrong)), ("m1", json.dumps(stored("message")))]

    assert decoder.records(rows, "c1") == [KINDS["message"]]
    assert "m2" in caplog.text
    with pytest.raises(ValidationError, match="sentiment_score") as raised:
        decoder.record(rows[1], "c1")
    assert WORD not in str(raised.value) + caplog.text
    with pytest.raises(ValidationError, match="m3"):
        decoder.record(rows[0], "c1")


def moved_to(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda stored: stored.update(fields)


def changed_by(change: Callable[[str], Any]) -> Callable[[dict[str, Any]], None]:
    def apply(stored: dict[str, Any]) -> None:
        stored["metadata"] = {ENCRYPTED_KEY: change(stored["metadata"][ENCRYPTED_KEY])}

    return apply


CHANGES = {
    "another record": moved_to(id="other"),
    "cut": changed_by(lambda text: text[:-4]),
    "flipped": changed_by(lambda text: text[:9] + ("A" if text[9] != "A" else "B") + text[10:]),
    "another key's id": changed_by(lambda text: text.replace(FIRST, SECOND, 1)),
    "no text": changed_by(lambda text: 1),
    "empty": changed_by(lambda text: ""),
    "something beside it": lambda stored: stored["metadata"].update(more=1),
    "plain": moved_to(metadata={}),
}


@each_kind
@pytest.mark.every_combination
@pytest.mark.parametrize("change", CHANGES)
def test_a_record_that_was_changed_does_not_open(name: str, change: str) -> None:
    fields = stored(name)
    CHANGES[change](fields)

    does_not_open(name, fields, RecordCodec(keyring(FIRST, SECOND), accepts_plain=False))


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("conversation", {"title": "mine"}),
        ("message", {"original_content": "mine"}),
        ("message", {"entities": [{"name": "mine", "attributes": []}]}),
        ("trace", {"errors": ["mine"]}),
        ("trace", {"llm_calls": []}),
        ("trace", {"tool_traces": []}),
    ],
)
def test_a_plain_value_in_place_of_a_sealed_one_is_noticed(
    name: str, fields: dict[str, Any]
) -> None:
    does_not_open(name, {**stored(name), **fields})


# Items

ITEMS = ItemCodec(keyring(FIRST), accepts_plain=False)
PATH, OTHER = path_of(("n",), "k"), path_of(("n",), "other")
VECTOR = b"\0\0\x80?"


def item_row(**fields: Any) -> list[Any]:
    change = ITEMS.encrypted(ItemChange(PATH, None, secret_item(**fields), VECTOR))
    assert change.item is not None
    return [PATH, change.item.value, change.item.data, None, None, 1, 1, None, 1]


def vector_row(path: str = PATH) -> list[Any]:
    vector = ITEMS.encrypted(ItemChange(PATH, None, secret_item(), VECTOR)).vector
    return [path, {}, vector, None, None, 1, 1, None, 1]


def test_an_item_opens_where_it_was_sealed() -> None:
    [row] = ITEMS.decrypted([item_row()])
    [without] = ITEMS.decrypted([item_row(data=None)])
    [vector] = ITEMS.decrypted([vector_row()], "vectors")

    assert row[:3] == (PATH, {WORD: WORD}, WORD.encode())
    assert without[2] is None
    assert vector[2] == VECTOR


ITEM_ROWS: dict[str, Callable[[], list[Any]]] = {
    "another item": lambda: [OTHER, *item_row()[1:]],
    "without its data": lambda: [*item_row()[:2], None, *item_row()[3:]],
    "with other data": lambda: [*item_row()[:2], item_row()[2], *item_row()[3:]],
    "with data where there is none": lambda: [
        *item_row(data=None)[:2],
        item_row()[2],
        *item_row()[3:],
    ],
    "with plain data": lambda: [*item_row()[:2], b"mine", *item_row()[3:]],
    "with a vector for its data": lambda: [*item_row()[:2], vector_row()[2], *item_row()[3:]],
    "with something beside its value": lambda: [
        PATH,
        {**item_row()[1], "more": 1},
        *item_row(data=None)[2:],
    ],
    "plain": lambda: [PATH, {"a": 1}, None, *item_row()[3:]],
    "not JSON": lambda: [PATH, "{", None, *item_row()[3:]],
}


@pytest.mark.parametrize("change", ITEM_ROWS)
def test_an_item_that_was_changed_does_not_open(change: str) -> None:
    with pytest.raises(DecryptionError, match="the item"):
        ITEMS.decrypted([ITEM_ROWS[change]()])


@pytest.mark.parametrize(
    "row",
    [
        vector_row(OTHER),
        [*vector_row()[:2], VECTOR, *vector_row()[3:]],
        [*vector_row()[:2], item_row()[2], *vector_row()[3:]],
        [*vector_row()[:2], vector_row()[2][:-1], *vector_row()[3:]],
    ],
    ids=["another item", "plain", "data", "cut"],
)
def test_a_vector_that_was_changed_does_not_open(row: list[Any]) -> None:
    with pytest.raises(DecryptionError, match="the vector of the item"):
        ITEMS.decrypted([row], "vectors")


# Working memories

STATES = StateForm(keyring(FIRST))


def test_a_state_opens_where_it_was_sealed() -> None:
    memory = busy("c1")
    stored = Stored("mark", STATES.written(memory), memory.user_id)

    assert STATES.read("c1", stored, WorkingMemory) == memory


STATE_CHANGES: dict[str, Callable[[bytes], tuple[bytes, str, str]]] = {
    "another conversation": lambda data: (data, "c2", "ann"),
    "another user": lambda data: (data, "c1", "bob"),
    "cut": lambda data: (data[:-7], "c1", "ann"),
    "flipped": lambda data: (data.replace(data[50:51], b"-", 1), "c1", "ann"),
    "cut to its head": lambda data: (data[:32], "c1", "ann"),
    "plain": lambda data: (b"{}", "c1", "ann"),
    "nothing": lambda data: (b"", "c1", "ann"),
    "another form of JSON": lambda data: (b" " + data, "c1", "ann"),
}


@pytest.mark.parametrize("change", STATE_CHANGES)
def test_a_state_that_was_changed_does_not_open(change: str) -> None:
    data = STATES.written(WorkingMemory("c1", "ann", "desk"))
    changed, conversation_id, user_id = STATE_CHANGES[change](data)

    with pytest.raises(DecryptionError, match=r"^the working memory of conversation 'c\d'"):
        STATES.read(conversation_id, Stored("mark", changed, user_id), WorkingMemory)
