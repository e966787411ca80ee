"""A whole turn is appended in one step: with its trace, and in place of what stood there before."""

from __future__ import annotations

import pytest

from jazzmine import ConflictError
from jazzmine.core.message_store import MessageStore
from tests.behaviour.apis import Api
from tests.behaviour.samples import ids, message, messages, trace


async def stored(store: MessageStore) -> list[str]:
    return ids(await store.get_messages_by_conversation_id("c1"))


@pytest.mark.smoke
async def test_an_answer_is_regenerated_in_one_step(chat: MessageStore) -> None:
    await chat.append_messages("c1", messages("q1", "a1"), trace=trace("a1", id="t1"))

    appended = await chat.append_messages(
        "c1", [message("a2")], trace=trace("a2", id="t2"), replace_after="q1"
    )

    assert ids(appended) == ["a2"]
    assert await stored(chat) == ["q1", "a2"]
    assert await chat.get_turn_trace_by_id("t1") is None
    assert await chat.get_turn_trace_by_id("t2") == trace("a2", id="t2")


@pytest.mark.smoke
async def test_of_regenerations_at_once_one_takes_place(api: Api, chat: MessageStore) -> None:
    await chat.store_messages(messages("q1", "a0"))
    names = ["a1", "a2", "a3", "a4"]

    outcomes = await api.settle(
        *(
            lambda name=name: chat.append_messages(
                "c1", [message(name)], replace_after="q1", expected_last="a0"
            )
            for name in names
        )
    )

    done = [
        name
        for name, outcome in zip(names, outcomes, strict=True)
        if not isinstance(outcome, ConflictError)
    ]
    assert len(done) == 1
    assert await stored(chat) == ["q1", *done]
