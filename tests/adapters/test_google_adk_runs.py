"""Runs of agents of Google's ADK on sessions in a message store, and their traces."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jazzmine.adapters.google_adk import JazzmineSessionService
from jazzmine.core import MessageStore
from jazzmine.core.long_term_memory import LongTermMemoryStore
from tests.adapters.google_adk_program import (
    PLACE,
    ScriptedModel,
    items_config,
    opened,
    run,
    runner,
)
from tests.adapters.processes import ROOT
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


async def test_a_run_that_was_killed_in_a_tool_leaves_its_trace_and_goes_on(
    config: Config,
) -> None:
    program = [sys.executable, "-m", "tests.adapters.google_adk_program"]
    killed = await asyncio.to_thread(
        subprocess.run,
        [*program, json.dumps(config), "killed", "Rain?"],
        cwd=ROOT,
        timeout=120,
    )
    assert killed.returncode == -9

    async with (
        opened(config) as service,
        await MessageStore.initialize(config) as store,
    ):
        session = await service.get_session(**PLACE)
        assert session is not None
        assert [event.author for event in session.events] == ["user", "guide"]
        trace = await only_trace(store, ID)
        assert [call.success for call in trace.llm_calls] == [True]
        model = ScriptedModel()
        await run(runner(service, model), "And now?")

    # The call that was never answered is not sent: a provider would refuse it.
    kinds = [[kind_of(part) for one in sent for part in one.parts] for sent in model.sent]
    assert kinds == [["text", "text"], ["text", "text", "call", "answer"]]


def kind_of(part: Any) -> str:
    return "call" if part.function_call else "answer" if part.function_response else "text"
