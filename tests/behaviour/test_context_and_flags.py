"""The immediate context is the newest messages, without those that are flagged."""

from __future__ import annotations

import pytest

from jazzmine.core.message_store import MessageStore
from tests.behaviour.samples import full_message, ids, messages


async def context(store: MessageStore, n: int) -> list[str]:
    """The ids of the immediate context of the conversation "c1"."""
    return ids(await store.get_immediate_context("c1", n))


@pytest.mark.smoke
async def test_flagged_messages_are_passed_over_and_older_ones_take_their_place(
    chat: MessageStore,
) -> None:
    await chat.store_messages(messages("m1", "m2", "m3", "m4"))

    await chat.flag_message("m3")

    assert await context(chat, 2) == ["m2", "m4"]


# Flags


@pytest.mark.smoke
async def test_flagging_changes_the_flag_and_nothing_else(chat: MessageStore) -> None:
    stored = full_message(is_flagged=False)
    await chat.store_message(stored)

    assert await chat.flag_message("m1") is True

    found = await chat.get_message_by_id("m1")
    assert found == stored.model_copy(update={"is_flagged": True})
