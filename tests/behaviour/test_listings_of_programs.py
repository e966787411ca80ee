"""What programs that show whole stores read from a back end: counts, sums, and what is flagged."""

from __future__ import annotations

import pytest

from jazzmine import NotFoundError, TraceFilter
from jazzmine.core.message_store import MessageStore
from jazzmine.records.base import FlaggedShown
from jazzmine.records.hook_arguments import NewestPage
from jazzmine.records.rows import row_id
from tests.behaviour.samples import NOW, conversation, llm_call, message, trace
from tests.behaviour.writes import store_traces


@pytest.fixture
async def shown(chat: MessageStore) -> MessageStore:
    """A store with a conversation of four messages, two flagged, and others of one and none."""
    for name in ("c\x003", "empty", "theirs"):
        await chat.store_conversation(
            conversation(name, user_id="u2" if name == "theirs" else "u1")
        )
    for number, (name, role, is_flagged) in enumerate(
        (("a", "user", False), ("b", "assistant", True), ("c", "user", True), ("d", "tool", False))
    ):
        await chat.store_message(
            message(name, role=role, is_flagged=is_flagged, timestamp=NOW + number)
        )
    await chat.store_message(message("other", conversation_id="c\x003"))
    await chat.store_message(message("foreign", conversation_id="theirs"))
    return chat


@pytest.mark.smoke
async def test_messages_are_counted_with_flagged_ones(shown: MessageStore) -> None:
    counts = await shown.backend.count_messages(["c1", "c\x003", "empty", "unknown"])
    assert {key: count for key, count in counts.items() if count} == {"c1": 4, "c\x003": 1}


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("flagged", "expected"),
    [("all", ["d", "c", "b", "a"]), ("calls", ["d", "b", "a"]), ("none", ["d", "a"])],
)
async def test_a_page_of_the_newest_has_the_flagged_ones_that_are_wanted(
    shown: MessageStore, flagged: FlaggedShown, expected: list[str]
) -> None:
    read, page = shown.backend.list_newest, NewestPage("c1", flagged, 9, None)
    assert [row_id(row) for row in await read(page)] == expected
    earlier = await read(page._replace(after="c"))
    assert [row_id(row) for row in earlier] == [each for each in expected if each < "c"]
    assert await read(page._replace(after="a")) == []
    with pytest.raises(NotFoundError):
        await read(page._replace(after="other"))


@pytest.mark.smoke
async def test_traces_are_summed_up_for_some_conversations(shown: MessageStore) -> None:
    await store_traces(
        shown,
        trace("a", total_tokens=10, llm_calls=[llm_call(cost_usd=0.5)]),
        trace("b", total_tokens=20, errors=["broken"]),
        trace("other", conversation_id="c\x003", total_tokens=7),
        trace("foreign", conversation_id="theirs", user_id="u2", total_tokens=9),
    )

    sums = await shown.backend.summarize(TraceFilter(), "conversation", ["c1", "c\x003", "empty"])
    assert [(one.key, one.turns, one.total_tokens, one.cost_usd) for one in sums] == [
        ("c1", 2, 30, 0.5),
        ("c\x003", 1, 7, 0.0),
    ]
    failed = TraceFilter(has_errors=True)
    (one,) = await shown.backend.summarize(failed, "agent", ["c1", "theirs"])
    assert one.total_tokens == 20


@pytest.mark.smoke
async def test_a_view_counts_and_sums_up_what_is_its_users(shown: MessageStore) -> None:
    await store_traces(
        shown,
        trace("a", total_tokens=10),
        trace("foreign", conversation_id="theirs", user_id="u2", total_tokens=9),
    )
    async with shown.scoped(user_id="u1") as view:
        counts = await view.backend.count_messages(["c1", "theirs"])
        sums = await view.backend.summarize(TraceFilter(), "conversation", ["c1", "theirs"])
        assert await view.backend.list_newest(NewestPage("theirs", "all", 9, None)) == []
    assert (counts["c1"], counts.get("theirs", 0)) == (4, 0)
    assert [(one.key, one.total_tokens) for one in sums] == [("c1", 10)]
