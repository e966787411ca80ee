"""The memory of Google's ADK on the search of a message store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types

from jazzmine import ConfigurationError
from jazzmine.adapters._calls import as_async
from jazzmine.adapters.google_adk import JazzmineMemoryService, JazzmineSessionService
from jazzmine.core import MessageStore
from jazzmine.core.long_term_memory import LongTermMemoryStore
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.scripted_google_adk import PLACE

OWNER: dict[str, Any] = {"app_name": "a1", "user_id": "u1"}


@pytest.fixture(params=["async", "sync"])
async def searched(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    config: dict[str, object] = {"storage": "memory", "search": True}
    async with AsyncExitStack() as stack:
        if request.param == "async":
            yield await stack.enter_async_context(await MessageStore.initialize(config))
        else:
            yield stack.enter_context(SyncMessageStore.initialize(config))


def said(text: str, author: str = "user", **more: Any) -> Event:
    return Event(author=author, content=types.Content(parts=[types.Part(text=text)]), **more)


async def found(memory: JazzmineMemoryService, query: str, **place: str) -> list[tuple[Any, Any]]:
    answer = await memory.search_memory(**{**OWNER, **place}, query=query)
    return [(one.author, (one.content.parts or [])[0].text) for one in answer.memories]


async def test_what_was_said_in_all_sessions_of_a_user_is_found(searched: Any) -> None:
    memory = JazzmineMemoryService(searched)
    async with await LongTermMemoryStore.initialize("memory:") as items:
        service = JazzmineSessionService(searched, items)
        for user, session_id in (("u1", "s1"), ("u1", "s2"), ("u2", "s1")):
            session = await service.create_session(
                app_name="a1", user_id=user, session_id=session_id
            )
            await service.append_event(session, said(f"I like tea in {user} {session_id}."))
            await service.append_event(session, said("Noted.", "guide"))
            call = types.Part.from_function_call(name="tea", args={"kind": "green tea"})
            await service.append_event(
                session, Event(author="guide", content=types.Content(parts=[call]))
            )

    assert sorted(await found(memory, "tea")) == [
        ("user", "I like tea in u1 s1."),
        ("user", "I like tea in u1 s2."),
    ]
    assert await found(memory, "tea", app_name="a2") == []
    assert len(await found(memory, "noted", user_id="u2")) == 1
    assert len(await found(JazzmineMemoryService(searched, limit=1), "noted")) == 1
    (first, _) = (await memory.search_memory(**OWNER, query="tea")).memories
    await as_async(searched).flag_message(first.id or "")
    assert len(await found(memory, "tea")) == 1


async def test_sessions_of_another_service_are_found_once_they_are_added(searched: Any) -> None:
    memory, other = JazzmineMemoryService(searched), InMemorySessionService()
    session = await other.create_session(**PLACE)
    await other.append_event(session, said("I like tea.", timestamp=1_700_000_000))
    await memory.add_session_to_memory(session)
    await other.append_event(session, said("And coffee."))
    session.events.append(said("Part", partial=True))
    await memory.add_session_to_memory(session)

    texts = sorted(text for _, text in await found(memory, "tea coffee part"))
    assert texts == ["And coffee.", "I like tea."]
    (tea,) = (await memory.search_memory(**OWNER, query="tea")).memories
    assert tea.timestamp == "2023-11-14T22:13:20+00:00"


async def test_a_store_without_an_index_is_refused() -> None:
    async with await MessageStore.initialize("memory:") as store:
        with pytest.raises(ConfigurationError, match="jazzmine index"):
            await JazzmineMemoryService(store).search_memory(**OWNER, query="tea")
