"""Runs of agents of Google's ADK on sessions in a message store, and their traces."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from jazzmine.adapters.google_adk import JazzmineSessionService
from jazzmine.core import MessageStore
from jazzmine.core.long_term_memory import LongTermMemoryStore
from tests.adapters.scripted_google_adk import (
    PLACE,
    ScriptedModel,
    items_config,
    run,
    runner,
)
from tests.adapters.traces import check_recorded_turn, only_trace
from tests.behaviour.backends import Config

# What earlier versions of the framework say of themselves.
pytestmark = pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\]:UserWarning")

ID = "a1/u1/s1"


@pytest.fixture
async def service(store: MessageStore, config: Config) -> AsyncIterator[JazzmineSessionService]:
    async with await LongTermMemoryStore.initialize(items_config(config)) as items:
        made = JazzmineSessionService(store, items)
        await made.create_session(**PLACE)
        yield made


async def test_a_run_leaves_its_events_its_state_and_its_trace(
    service: JazzmineSessionService, store: MessageStore
) -> None:
    model = ScriptedModel()
    made = runner(service, model)
    events = await run(made, "Rain?")

    check_recorded_turn(await only_trace(store, ID))
    conversation = await store.get_conversation_by_id(ID)
    assert conversation is not None
    assert conversation.title == "Rain?"
    session = await service.get_session(**PLACE)
    assert session is not None
    assert session.events[1:] == events
    assert session.state == {"answer": "It rains."}
    await run(made, "And now?")
    traces = await store.get_turn_traces_by_conversation_id(ID)
    assert [trace.turn_number for trace in traces] == [1, 2]
    texts = [[part.text for part in content.parts if part.text] for content in model.sent[-1]]
    assert [text for text in texts if text] == [["Rain?"], ["It rains."], ["And now?"]]
