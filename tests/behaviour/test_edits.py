"""Conversations and messages are edited by field; conversations are found by their metadata."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.core.message_store import MessageStore
from tests.behaviour.apis import Api
from tests.behaviour.edge_values import DIFFERENT, EQUAL
from tests.behaviour.samples import conversation, message

before_hooks = pytest.mark.before_hooks


@pytest.mark.smoke
async def test_edits_at_once_are_all_made(api: Api, chat: MessageStore) -> None:
    await chat.store_message(message())
    changes: list[dict[str, Any]] = [{f"k{n}": n} for n in range(15)]

    await api.gather(
        *(lambda one=one: chat.edit_conversation("c1", metadata=one) for one in changes)
    )
    await api.gather(*(lambda one=one: chat.edit_message("m1", metadata=one) for one in changes))

    whole, said = await chat.get_conversation_by_id("c1"), await chat.get_message_by_id("m1")
    assert whole is not None
    assert said is not None
    assert whole.metadata == said.metadata == {f"k{n}": n for n in range(15)}


@before_hooks
@pytest.mark.parametrize(
    ("edited", "wrong", "error"),
    [
        ("conversation", {"title": 5}, TypeError),
        ("conversation", {"title": "\ud800"}, ValidationError),
        ("conversation", {"metadata": [1]}, TypeError),
        ("conversation", {"metadata": {"a": float("nan")}}, ValidationError),
        ("conversation", {"metadata": {"a\0": 1}}, ValidationError),
        ("message", {"conversation_id": "c2"}, TypeError),
        ("message", {"user_id": "u2"}, TypeError),
        ("message", {"role": "tool"}, TypeError),
        ("message", {"timestamp": 5}, TypeError),
        ("message", {"is_flagged": False}, TypeError),
        ("message", {"colour": "red"}, TypeError),
        ("message", {"sentiment_score": 2.0}, ValidationError),
        ("message", {"original_content": "\ud800"}, ValidationError),
        ("message", {"metadata": {"a": float("nan")}}, ValidationError),
    ],
    ids=repr,
)
async def test_an_edit_that_makes_no_such_record_is_refused(
    chat: MessageStore, edited: str, wrong: dict[str, Any], error: type[Exception]
) -> None:
    await chat.store_message(message())
    edit: Any = chat.edit_message if edited == "message" else chat.edit_conversation

    with pytest.raises(error):
        await edit("m1" if edited == "message" else "c1", **wrong)

    assert await chat.get_conversation_by_id("c1") == conversation()
    assert await chat.get_message_by_id("m1") == message()


# Finding conversations


@pytest.mark.smoke
async def test_conversations_are_found_by_their_metadata(store: MessageStore) -> None:
    cases = [({"n": stored, "tag": 2}, {"n": asked}, True) for stored, asked in EQUAL]
    cases += [({"n": stored, "tag": 2}, {"n": asked}, False) for stored, asked in DIFFERENT]
    cases += [
        ({}, {}, True),
        ({}, {"n": None}, False),
        ({"n.a": 1, "$n": 2, "n": {"a": [1]}}, {"n.a": 1, "$n": 2}, True),
        ({"n": 1, "channel": "web"}, {"n": 1, "channel": "web"}, True),
        ({"n": 1, "channel": "web"}, {"n": 1, "channel": "phone"}, False),
    ]
    for metadata, where, is_found in cases:
        tagged = conversation(metadata=metadata)
        await store.store_conversation(tagged)
        found = [tagged] if is_found else []

        assert await store.get_conversations(where=where) == found, (metadata, where)


@before_hooks
@pytest.mark.parametrize(
    ("wrong", "error"),
    [(5, TypeError), ({"a": {1, 2}}, ValidationError), ({"a\0": 1}, ValidationError)],
    ids=repr,
)
async def test_a_condition_that_no_back_end_can_hold_is_refused(
    store: MessageStore, wrong: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await store.get_conversations(where=wrong)
