"""A conversation is edited by field, and conversations are found by their metadata."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine.core.message_store import MessageStore
from tests.behaviour.apis import Api
from tests.behaviour.samples import NOW, conversation, ids


@pytest.mark.smoke
async def test_edits_at_once_are_all_made(api: Api, chat: MessageStore) -> None:
    await api.gather(
        *(lambda n=n: chat.edit_conversation("c1", metadata={f"k{n}": n}) for n in range(20))
    )

    found = await chat.get_conversation_by_id("c1")
    assert found is not None
    assert found.metadata == {f"k{n}": n for n in range(20)}


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"title": 5}, TypeError),
        ({"title": "\ud800"}, ValidationError),
        ({"metadata": [1]}, TypeError),
        ({"metadata": {"a": float("nan")}}, ValidationError),
        ({"metadata": {"a\0": 1}}, ValidationError),
    ],
    ids=repr,
)
async def test_an_edit_that_no_back_end_can_hold_is_refused(
    chat: MessageStore, wrong: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await chat.edit_conversation("c1", **wrong)
    assert await chat.get_conversation_by_id("c1") == conversation()


# Finding conversations

TAGGED: dict[str, dict[str, Any]] = {
    "plain": {},
    "one": {"n": 1, "channel": "web"},
    "float": {"n": 1.0},
    "true": {"n": True},
    "text": {"n": "1"},
    "null": {"n": None},
    "nested": {"n": {"a": [1, {"b": "\0"}]}},
    "dotted": {"n.a": 1, "$n": 2, "n": {"a": [1]}},
}


@pytest.fixture
async def tagged(store: MessageStore) -> MessageStore:
    for number, (name, metadata) in enumerate(TAGGED.items()):
        owner = "u2" if name == "float" else "u1"
        times = {"last_updated_at": NOW - number}
        await store.store_conversation(
            conversation(name, user_id=owner, metadata=metadata, **times)
        )
    return store


@pytest.mark.each_value
@pytest.mark.smoke
@pytest.mark.parametrize(
    ("where", "names"),
    [
        ({}, list(TAGGED)),
        ({"n": 1}, ["one", "float"]),
        ({"n": 1.0}, ["one", "float"]),
        ({"n": True}, ["true"]),
        ({"n": "1"}, ["text"]),
        ({"n": None}, ["null"]),
        ({"n": {"a": [1, {"b": "\0"}]}}, ["nested"]),
        ({"n": {"a": [1]}}, ["dotted"]),
        ({"n.a": 1}, ["dotted"]),
        ({"$n": 2}, ["dotted"]),
        ({"n": 1, "channel": "web"}, ["one"]),
        ({"n": 1, "channel": "phone"}, []),
        ({"n": {}}, []),
    ],
    ids=repr,
)
async def test_conversations_are_found_by_their_metadata(
    tagged: MessageStore, where: dict[str, Any], names: list[str]
) -> None:
    assert ids(await tagged.get_conversations(where=where)) == names


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
