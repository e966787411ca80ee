"""What one user has becomes another user's; pages from the end, counts, repeated forks."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine import ConflictError, NotFoundError, TraceFilter
from jazzmine.core.message_store import MessageStore
from jazzmine.records.usage import UsageKey
from tests.behaviour.samples import conversation, ids, messages, trace


@pytest.mark.smoke
async def test_a_page_opens_at_the_end_of_a_conversation(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2", "m3", "m4", "m5"))
    await chat.flag_message("m3")

    page = await chat.get_messages_by_conversation_id("c1", order="newest", limit=2)
    assert ids(page) == ["m5", "m4"]
    rest = await chat.get_messages_by_conversation_id("c1", order="newest", after="m4")
    assert ids(rest) == ["m3", "m2", "m1"]
    with pytest.raises(NotFoundError):
        await chat.get_messages_by_conversation_id("c1", order="newest", after="nowhere")
    wrong: Any = "latest"
    with pytest.raises(ValueError, match="oldest"):
        await chat.get_messages_by_conversation_id("c1", order=wrong)


@pytest.mark.smoke
async def test_a_title_is_set_only_where_there_is_none(chat: MessageStore) -> None:
    await chat.store_conversation(conversation(title=""))

    assert (await chat.edit_conversation("c1", default_title="tea")).title == "tea"
    assert (await chat.edit_conversation("c1", default_title="coffee")).title == "tea"
    assert (await chat.edit_conversation("c1", title="mine", default_title="no")).title == "mine"


@pytest.mark.smoke
async def test_a_fork_that_is_repeated_gives_the_same_ids(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))
    await chat.store_turn_trace(trace(message_id="m2"))
    copy = conversation("c9")

    new_ids = await chat.fork_conversation("c1", copy, until="m2")

    assert await chat.fork_conversation("c1", copy, until="m2") == new_ids
    assert await chat.count_messages(["c9"]) == {"c9": 2}
    await chat.store_conversation(conversation("c8"))
    with pytest.raises(ConflictError):
        await chat.fork_conversation("c1", conversation("c8"))


@pytest.mark.smoke
async def test_sums_leave_the_traces_of_copies_out(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2"))
    await chat.store_turn_trace(trace(message_id="m2", total_tokens=30))

    await chat.fork_conversation("c1", conversation("c9"))

    [copied] = await chat.get_turn_traces_by_conversation_id("c9")
    assert copied.copied_from == "trace-of-m2"
    keys: list[UsageKey] = ["agent", "day"]
    for by in keys:
        [summary] = await chat.summarize_usage(TraceFilter(), by=by)
        assert (summary.turns, summary.total_tokens) == (1, 30)


async def test_an_erasure_ends_beside_a_user_who_goes_on_writing(chat: MessageStore) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))
    newest = await chat.backend.newest_sequence()
    await chat.store_conversation(conversation("c2"))

    while any(await chat.backend.erase("u1", 100, newest)):
        pass

    assert ids(await chat.get_conversations()) == ["c2"]
    assert (await chat.erase_user("u1")).conversations == 1
