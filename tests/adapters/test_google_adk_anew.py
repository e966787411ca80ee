"""Sessions of Google's ADK that were deleted and made anew, and memories beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.adk.tools.function_tool import FunctionTool
from google.genai import types

from jazzmine.adapters.google_adk import JazzmineMemoryService, JazzmineSessionService
from jazzmine.core import MessageStore
from jazzmine.core.long_term_memory import LongTermMemoryStore
from tests.adapters.scripted_google_adk import (
    OWNER,
    PLACE,
    ScriptedModel,
    changing,
    opened,
    run,
    runner,
    said,
    weather,
)


@pytest.fixture
async def service() -> AsyncIterator[JazzmineSessionService]:
    async with opened({"storage": "memory"}) as made:
        yield made


@pytest.mark.parametrize("events", [0, 2])
async def test_a_session_that_was_made_anew_does_not_get_an_old_event(
    service: JazzmineSessionService, events: int
) -> None:
    old = await service.create_session(**PLACE)
    for _ in range(events):
        await service.append_event(old, said("Hello"))
    await service.delete_session(**PLACE)
    await service.create_session(**PLACE)

    with pytest.raises(StaleSessionError):
        await service.append_event(old, changing({"late": 1}))

    found = await service.get_session(**PLACE)
    assert found is not None
    assert (found.events, found.state) == ([], {})


async def test_a_run_leaves_its_events_and_its_state(service: JazzmineSessionService) -> None:
    await service.create_session(**PLACE)
    events = await run(runner(service, ScriptedModel()), "Rain?")

    found = await service.get_session(**PLACE)
    assert found is not None
    assert found.events[1:] == events
    assert found.state == {"answer": "It rains."}


async def test_a_call_that_waits_for_a_person_stays_while_the_talk_goes_on(
    service: JazzmineSessionService,
) -> None:
    await service.create_session(**PLACE)
    made = runner(service, ScriptedModel(), FunctionTool(weather, require_confirmation=True))
    events = await run(made, "Rain?")
    calls = [call for event in events for call in event.get_function_calls()]
    await run(made, "Are you there?")
    found: Any = await service.get_session(**PLACE)
    kept = [call for event in found.events for call in event.get_function_calls()]
    confirmed: Any = types.Part.from_function_response(
        name="adk_request_confirmation", response={"confirmed": True}
    )
    (confirmed.function_response.id,) = (
        call.id for call in calls if call.name == "adk_request_confirmation"
    )
    answered, *_ = await run(made, confirmed)

    assert {call.id for call in calls} <= {call.id for call in kept}
    (answer,) = answered.get_function_responses()
    assert answer.response == {"result": "rain in Lisbon"}


async def test_a_session_may_be_created_after_its_memories(
    service: JazzmineSessionService, tmp_path: Any
) -> None:
    async with await MessageStore.initialize(
        {"storage": "sqlite", "path": f"{tmp_path}/m.db", "search": "english"}
    ) as store:
        memory = JazzmineMemoryService(store)
        part = types.Part.from_function_call(name="weather", args={"city": "Lisbon"})
        content = types.Content(role="model", parts=[part])
        calls = [Event(author="guide", content=content, id=f"e{number}") for number in range(30)]
        for name, events in (("s1", [said("It rains in Lisbon")]), ("s2", calls)):
            await memory.add_session_to_memory(Session(id=name, events=events, **OWNER))

        found: Any = await memory.search_memory(query="Lisbon", **OWNER)
        assert [entry.content.parts[0].text for entry in found.memories] == ["It rains in Lisbon"]

        async with await LongTermMemoryStore.initialize("memory:") as items:
            made = JazzmineSessionService(store, items)
            assert await made.get_session(**PLACE) is None
            assert (await made.create_session(**PLACE)).events == []
