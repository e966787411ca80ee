"""Messages keep their order, and pages are correct if messages change between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine.core.message_store import MessageStore
from tests.behaviour.samples import NOW, ids, message, messages

Steps = list[Callable[[Any], Any]]


async def listed(store: MessageStore, **page: Any) -> list[str]:
    """Return the ids of the messages of conversation "c1", which are all those of user "u1"."""
    found = ids(await store.get_messages_by_conversation_id("c1", **page))
    assert ids(await store.get_messages_by_user_id("u1", **page)) == found
    return found


# Order


@pytest.mark.each_value
@pytest.mark.smoke
@pytest.mark.parametrize(
    ("steps", "order"),
    [
        ([lambda store: store.store_message(message("m1", intent="changed"))], "m1 m2 m3"),
        (
            [lambda store: store.store_messages(messages("m4", "m3", "m1", intent="changed"))],
            "m1 m2 m3 m4",
        ),
        (
            [
                lambda store: store.update_message(message("m2", timestamp=NOW + 1)),
                lambda store: store.update_message(message("m2", timestamp=NOW)),
            ],
            "m1 m2 m3",
        ),
        (
            [
                lambda store: store.delete_message("m1"),
                lambda store: store.store_message(message("m1")),
            ],
            "m2 m3 m1",
        ),
    ],
    ids=[
        "stored again",
        "several again",
        "later and back",
        "deleted and stored again",
    ],
)
async def test_messages_are_in_the_order_in_which_they_were_first_stored(
    chat: MessageStore, steps: Steps, order: str
) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))

    for step in steps:
        await step(chat)

    assert await listed(chat) == order.split()


async def test_the_extremes_of_time_are_in_order(chat: MessageStore) -> None:
    await chat.store_message(message("end", timestamp=2**63 - 1))
    await chat.store_message(message("epoch", timestamp=0))
    await chat.store_message(message("beginning", timestamp=-(2**63)))

    assert await listed(chat) == ["beginning", "epoch", "end"]
    assert await listed(chat, after="beginning", limit=1) == ["epoch"]
    assert ids(await chat.get_immediate_context("c1", 1)) == ["end"]


# Pages


@pytest.mark.parametrize(
    ("steps", "after", "order"),
    [
        (
            [
                lambda store: store.store_message(message("earlier", timestamp=NOW - 1)),
                lambda store: store.store_message(message("equal")),
            ],
            "m2",
            "m3 m4 equal",
        ),
        (
            [
                lambda store: store.delete_message("m1"),
                lambda store: store.delete_message("m3"),
            ],
            "m2",
            "m4",
        ),
    ],
    ids=["added", "deleted"],
)
async def test_the_next_page_is_right_after_changes(
    chat: MessageStore, steps: Steps, after: str, order: str
) -> None:
    await chat.store_messages(messages("m1", "m2", "m3", "m4"))
    assert await listed(chat, limit=2) == ["m1", "m2"]

    for step in steps:
        await step(chat)

    assert await listed(chat, limit=3, after=after) == order.split()
