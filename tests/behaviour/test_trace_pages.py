"""Found traces are paged, and pages are correct if traces change between them."""

from __future__ import annotations

import pytest

from jazzmine import NotFoundError
from jazzmine.core.message_store import MessageStore, TraceFilter
from tests.behaviour.samples import messages, trace
from tests.behaviour.writes import store_traces


async def test_a_page_after_a_trace_that_is_not_there_is_refused(chat: MessageStore) -> None:
    await store_traces(chat, trace("m1", id="t1"))
    await chat.store_turn_trace(trace("m1", id="t2"))

    with pytest.raises(NotFoundError, match="t1"):
        await chat.find_turn_traces(TraceFilter(), after="t1")


async def test_a_hundred_traces_are_found_unless_more_are_asked_for(chat: MessageStore) -> None:
    names = [f"m{number:03}" for number in range(101)]
    await chat.store_messages(messages(*names))
    await store_traces(chat, *(trace(name, started_at_ms=int(name[1:])) for name in names))

    assert len(await chat.find_turn_traces(TraceFilter())) == 100
    assert len(await chat.find_turn_traces(TraceFilter(), limit=101)) == 101
