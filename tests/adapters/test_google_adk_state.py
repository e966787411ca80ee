"""Sessions of Google's ADK in memory: state that several share, long sessions, what is left out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types

from jazzmine import MemoryItem
from jazzmine.adapters import _google_adk_state
from jazzmine.adapters.google_adk import JazzmineSessionService
from jazzmine.core import MessageStore
from jazzmine.core.long_term_memory import LongTermMemoryStore
from tests.adapters.scripted_google_adk import OWNER, PLACE, changing, said, texts


@pytest.fixture
async def memory() -> AsyncIterator[Any]:
    """A service in memory, with its stores."""
    async with (
        await MessageStore.initialize("memory:") as store,
        await LongTermMemoryStore.initialize("memory:") as items,
    ):
        yield JazzmineSessionService(store, items), store, items


async def test_state_counts_once_its_event_is_stored(memory: Any) -> None:
    service, store, _ = memory
    session = await service.create_session(**PLACE, state={"user:k": 0})
    append, store.append_messages = store.append_messages, None
    event = changing({"user:k": 1})
    with pytest.raises(TypeError):
        await service.append_event(session, event)
    assert await service.get_user_state(**OWNER) == {"k": 0}
    store.append_messages = append
    await service.append_event(session, event)
    assert await service.get_user_state(**OWNER) == {"k": 1}


async def test_state_counts_once_the_session_that_begins_with_it_is_stored(memory: Any) -> None:
    service, store, _ = memory
    create, store.get_or_create_conversation = store.get_or_create_conversation, None
    with pytest.raises(TypeError):
        await service.create_session(**PLACE, state={"user:k": 1, "app:k": 1})
    assert await service.get_user_state(**OWNER) == {}

    async def raced(conversation: Any) -> Any:
        # Another caller's session of the same id is stored before this one's.
        store.get_or_create_conversation = create
        await service.create_session(**PLACE, state={"user:k": 2})
        return await create(conversation)

    store.get_or_create_conversation = raced
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**PLACE, state={"user:k": 3, "app:k": 3})
    assert (await service.get_session(**PLACE)).state == {"user:k": 2}
    await service.append_event(await service.get_session(**PLACE), changing({"user:n": 1}))
    assert await service.get_user_state(**OWNER) == {"k": 2, "n": 1}


async def test_what_a_session_begins_with_is_kept_as_the_framework_keeps_it(memory: Any) -> None:
    service, _, _ = memory
    state = {"model": types.Part(text="x"), "moment": datetime(2026, 1, 2, tzinfo=UTC), "f": len}
    state |= {"pair": (1, {2}), "bytes": b"abc"}

    created = await service.create_session(**PLACE, state=state)

    found = await service.get_session(**PLACE)
    assert found.state == created.state
    assert found.state["model"]["text"] == "x"
    del found.state["model"]
    assert found.state == {
        "moment": "2026-01-02T00:00:00Z",
        "f": "<built-in function len>",
        "pair": [1, [2]],
        "bytes": "abc",
    }
    # What JSON has no form for does not cost its event.
    await service.append_event(found, changing({"f": max, "user:f": max, "pair": 2}))
    state = (await service.get_session(**PLACE)).state
    assert state["pair"] == 2
    assert state["f"] == state["user:f"] == "<built-in function max>"


async def test_a_killed_writers_state_counts_with_what_it_stored(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, _, items = memory

    async def killed(*_: Any) -> None:
        raise OSError("killed")

    monkeypatch.setattr(_google_adk_state.SharedState, "settle", killed)
    calls: list[Any] = [
        lambda: service.create_session(**PLACE, state={"user:a": 1}),
        lambda: service.append_event(
            Session(id="s1", app_name="a1", user_id="u1"), changing({"user:b": 2})
        ),
    ]
    for call in calls:
        with pytest.raises(OSError, match="killed"):
            await call()
    monkeypatch.undo()

    assert await service.get_user_state(**OWNER) == {"a": 1, "b": 2}
    item: MemoryItem = await items.get(("google_adk", "a1", "u1"), "state")
    assert len(item.value["pending"]) == 1
    session = await service.get_session(**PLACE)
    await service.append_event(session, changing({"user:a": 3}))
    assert await service.get_user_state(**OWNER) == {"a": 3, "b": 2}
    item = await items.get(("google_adk", "a1", "u1"), "state")
    assert item.value["pending"] == []


async def test_a_change_whose_event_was_never_stored_is_forgotten(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, store, items = memory
    session = await service.create_session(**PLACE)
    append, store.append_messages = store.append_messages, None
    with pytest.raises(TypeError):
        await service.append_event(session, changing({"user:lost": 1}))
    store.append_messages = append
    monkeypatch.setattr(_google_adk_state, "_PENDING_MS", -1)
    await service.append_event(session, changing({"user:k": 1}))

    item: MemoryItem = await items.get(("google_adk", "a1", "u1"), "state")
    assert "lost" not in str(item.value)
    monkeypatch.undo()
    assert await service.get_user_state(**OWNER) == {"k": 1}


async def test_a_limited_read_of_a_long_session_reads_few_messages(memory: Any) -> None:
    service, store, _ = memory
    session = await service.create_session(**PLACE, state={"begun": True})
    for number in range(120):
        await service.append_event(session, changing({"n": number, f"k{number}": number}))
    assert await service.get_session(**PLACE) == session
    (listed,) = (await service.list_sessions(**OWNER)).sessions
    assert listed.state == session.state
    await service.append_event(session, changing({"n": -1}))

    read: list[Any] = []
    get = store.get_messages_by_conversation_id

    async def counted(*args: Any, **kwargs: Any) -> Any:
        read.extend(found := await get(*args, **kwargs))
        return found

    store.get_messages_by_conversation_id = counted
    recent = await service.get_session(**PLACE, config=GetSessionConfig(num_recent_events=5))
    assert recent.events == session.events[-5:]
    assert recent.state == session.state
    assert len(read) == 6  # the five newest, and the one behind the kept state
    # The message that the kept state is of.
    await store.delete_message(f"a1/u1/s1/{session.events[-2].id}")
    recent = await service.get_session(**PLACE, config=GetSessionConfig(num_recent_events=5))
    assert recent.state == {key: value for key, value in session.state.items() if key != "k119"}


async def test_each_read_of_a_session_has_the_same_state_after_a_deletion(memory: Any) -> None:
    service, store, _ = memory
    session = await service.create_session(**PLACE)
    for number in range(120):
        await service.append_event(session, changing({"n": number, f"k{number}": number}))
        if number == 60:
            await service.get_session(**PLACE)  # keeps the state at this event
    ids = [f"a1/u1/s1/{event.id}" for event in session.events]

    async def state() -> dict[str, Any]:
        whole = await service.get_session(**PLACE)
        few = GetSessionConfig(num_recent_events=2)
        assert (await service.get_session(**PLACE, config=few)).state == whole.state
        return dict(whole.state)

    await store.delete_message(ids[3])
    await store.delete_message(ids[119])
    found = await state()
    assert (found["n"], "k3" in found, "k119" in found) == (118, True, False)
    await store.rewind_conversation("a1/u1/s1", after=ids[20])
    found = await state()
    assert (found["n"], "k3" in found, "k21" in found) == (20, False, False)
    (listed,) = (await service.list_sessions(**OWNER)).sessions
    assert listed.state == {}


async def test_a_read_does_not_begin_with_the_answer_to_a_call_that_is_left_out(
    memory: Any,
) -> None:
    service, store, _ = memory
    session = await service.create_session(**PLACE)
    call = types.FunctionCall(id="c1", name="weather", args={"city": "Lisbon"})
    answer = types.FunctionResponse(id="c1", name="weather", response={"result": "rain"})
    asked = Event(
        author="guide", content=types.Content(role="model", parts=[types.Part(function_call=call)])
    )
    answered = Event(
        author="guide",
        content=types.Content(role="user", parts=[types.Part(function_response=answer)]),
    )
    for event in (said("Rain?"), asked, answered, said("Thanks.")):
        await service.append_event(session, event)

    recent = await service.get_session(**PLACE, config=GetSessionConfig(num_recent_events=2))
    assert texts(recent) == ["Thanks."]
    await store.flag_message(f"a1/u1/s1/{asked.id}")
    assert texts(await service.get_session(**PLACE)) == ["Rain?", "Thanks."]
    shown = await store.get_messages_by_conversation_id("a1/u1/s1")
    assert [(one.role.value, one.original_content) for one in shown] == [
        ("user", "Rain?"),
        ("assistant", 'weather({"city":"Lisbon"})'),
        ("tool", '{"result":"rain"}'),
        ("user", "Thanks."),
    ]


async def test_a_user_is_erased_from_events_and_state(memory: Any) -> None:
    service, store, items = memory
    session = await service.create_session(**PLACE, state={"user:k": 1, "app:k": 1})
    await service.append_event(session, said("Rain?"))
    await store.erase_user("u1")
    await items.erase_user("u1")

    assert await service.get_session(**PLACE) is None
    assert (await service.create_session(**PLACE)).state == {"app:k": 1}


async def test_other_stores_are_refused(memory: Any) -> None:
    _, store, items = memory
    with pytest.raises(TypeError, match="MessageStore that is open"):
        JazzmineSessionService(items, store)
    with pytest.raises(TypeError, match="LongTermMemoryStore that is open"):
        JazzmineSessionService(store, store)
