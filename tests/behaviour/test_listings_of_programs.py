"""What programs that show whole stores read from a back end: counts, sums, and what is flagged."""

from __future__ import annotations

import pytest

from jazzmine import NotFoundError
from jazzmine.core.message_store import MessageStore
from jazzmine.records.base import FlaggedShown
from jazzmine.records.hook_arguments import NewestPage
from jazzmine.records.rows import row_id
from tests.behaviour.samples import NOW, conversation, message


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
