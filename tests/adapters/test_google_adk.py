"""Sessions of Google's ADK: what its own tests want of a session service, and what ours adds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

from jazzmine.adapters.google_adk import JazzmineSessionService
from jazzmine.core import MessageStore
from jazzmine.core.long_term_memory import LongTermMemoryStore
from jazzmine.sync import MessageStore as SyncMessageStore
from jazzmine.sync.long_term_memory import LongTermMemoryStore as SyncLongTermMemoryStore
from tests.adapters.scripted_google_adk import OWNER, PLACE, changing, items_config, said, texts
from tests.behaviour.backends import Config


@pytest.fixture(params=["async", "sync"])
async def service(config: Config, request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """A service on an empty store of either API."""
    async with AsyncExitStack() as stack:
        store: Any
        items: Any
        if request.param == "async":
            store = await stack.enter_async_context(await MessageStore.initialize(config))
            items = await stack.enter_async_context(
                await LongTermMemoryStore.initialize(items_config(config))
            )
        else:
            store = stack.enter_context(SyncMessageStore.initialize(config))
            items = stack.enter_context(SyncLongTermMemoryStore.initialize(items_config(config)))
        yield JazzmineSessionService(store, items)


async def test_a_session_is_created_read_and_deleted(service: JazzmineSessionService) -> None:
    assert await service.get_session(**PLACE) is None
    session = await service.create_session(**OWNER, state={"k": "v", "temp:t": 1})

    assert (session.app_name, session.user_id, session.state) == ("a1", "u1", {"k": "v"})
    place: dict[str, Any] = {**OWNER, "session_id": session.id}
    assert await service.get_session(**place) == session
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**place, state={"k": "w", "user:k": "w"})
    assert await service.get_session(**place) == session
    await service.delete_session(**place)
    await service.delete_session(**place)
    assert await service.get_session(**place) is None


async def test_sessions_are_listed_with_the_last_changed_at_the_end(
    service: JazzmineSessionService,
) -> None:
    for user, name in (("u1", "s1"), ("u1", "s2"), ("u2", "s1")):
        await service.create_session(
            app_name="a1", user_id=user, session_id=name, state={"k": user + name, "user:n": user}
        )
    await service.create_session(app_name="a2", user_id="u1", session_id="s1")
    first = await service.get_session(**PLACE)
    assert first is not None
    await service.append_event(first, said("Rain?", timestamp=first.last_update_time + 10))

    mine = (await service.list_sessions(**OWNER)).sessions
    assert [one.id for one in mine] == ["s2", "s1"]
    assert mine[1].last_update_time == pytest.approx(first.last_update_time, abs=1e-6)
    assert [one.events for one in mine] == [[], []]
    everyone = (await service.list_sessions(app_name="a1")).sessions
    states = {(one.user_id, one.id): one.state for one in everyone}
    assert states == {
        ("u1", "s1"): {"k": "u1s1", "user:n": "u1"},
        ("u1", "s2"): {"k": "u1s2", "user:n": "u1"},
        ("u2", "s1"): {"k": "u2s1", "user:n": "u2"},
    }


async def test_state_is_a_sessions_a_users_or_an_apps(service: JazzmineSessionService) -> None:
    session = await service.create_session(**PLACE, state={"app:a": 1, "user:u": 1, "s": 1})
    await service.append_event(session, changing({"app:b": 2, "user:v": 2, "s": 2, "temp:t": 2}))

    everything = {"app:a": 1, "app:b": 2, "user:u": 1, "user:v": 2, "s": 2}
    assert session.state == {**everything, "temp:t": 2}
    stored = await service.get_session(**PLACE)
    assert stored is not None
    assert stored.state == everything
    assert stored.events[0].actions.state_delta == {"app:b": 2, "user:v": 2, "s": 2}
    other = await service.create_session(**OWNER, session_id="s2")
    assert other.state == {"app:a": 1, "app:b": 2, "user:u": 1, "user:v": 2}
    stranger = await service.create_session(app_name="a1", user_id="u2")
    assert stranger.state == {"app:a": 1, "app:b": 2}
    assert (await service.create_session(app_name="a2", user_id="u1")).state == {}
    assert await service.get_user_state(**OWNER) == {"u": 1, "v": 2}
    assert await service.get_user_state(app_name="a2", user_id="u1") == {}
    await service.append_event(other, changing({"user:v": {"x": [None, 10**30]}}))
    assert await service.get_user_state(**OWNER) == {"u": 1, "v": {"x": [None, 10**30]}}


async def test_a_session_of_another_user_with_the_same_id_is_another_one(
    service: JazzmineSessionService,
) -> None:
    session = await service.create_session(**PLACE)
    await service.append_event(session, said("Rain?"))
    for user, name in (("u2", "s1"), ("u1/s1", "x"), ("u1", "s1/x"), ("u1%2Fs1", "x")):
        other = await service.create_session(app_name="a1", user_id=user, session_id=name)
        assert (other.user_id, other.id, other.events) == (user, name, [])
        place: dict[str, Any] = {"app_name": "a1", "user_id": user, "session_id": name}
        assert await service.get_session(**place) == other


async def test_spaces_around_the_id_of_a_session_do_not_count(
    service: JazzmineSessionService,
) -> None:
    padded: dict[str, Any] = {**OWNER, "session_id": " s1\n"}
    session = await service.create_session(**padded, state={"k": 1})
    assert session.id == "s1"
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**PLACE, state={"k": 2})
    assert await service.get_session(**padded) == session
    await service.append_event(session.model_copy(update={"id": " s1\n"}), changing({"k": 3}))
    stored = await service.get_session(**PLACE)
    assert stored is not None
    assert stored.state == {"k": 3}
    await service.delete_session(**padded)
    assert await service.get_session(**PLACE) is None
    assert (await service.create_session(**OWNER, session_id=" \n")).id.strip()


async def test_a_change_replaces_the_value_of_its_key(service: JazzmineSessionService) -> None:
    keys = ("k", "user:k", "app:k")
    begun = {key: {"a": 1, "b": 2} for key in keys}
    session = await service.create_session(**PLACE, state={**begun, "off": False, "user:off": True})
    await service.append_event(
        session, changing({**{key: {"a": 3} for key in keys}, "off": None, "user:off": None})
    )

    changed = {**{key: {"a": 3} for key in keys}, "off": None, "user:off": None}
    assert session.state == changed
    await service.append_event(session, changing({"on": True}))
    stored = await service.get_session(**PLACE)
    assert stored is not None
    assert stored.state == {**changed, "on": True}
    assert stored.state["on"] is True


async def test_events_keep_their_times_and_their_order(service: JazzmineSessionService) -> None:
    session = await service.create_session(**PLACE)
    # Both are half past one in New York; two of the events have one time.
    times = [1_730_611_800.25, 1_730_615_400.0, 1_730_615_400.0]
    for name, time in zip("azm", times, strict=True):
        await service.append_event(session, said(name, id=name, timestamp=time))

    stored = await service.get_session(**PLACE)
    assert stored is not None
    assert [(event.id, event.timestamp) for event in stored.events] == list(
        zip("azm", times, strict=True)
    )


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL:UserWarning")
async def test_an_event_is_stored_as_it_is(service: JazzmineSessionService) -> None:
    session = await service.create_session(**PLACE)
    image = types.Part.from_bytes(data=b"\xff\x00", mime_type="image/png")
    entry = types.SearchEntryPoint(sdk_blob=b"\xfe")
    event = Event(
        invocation_id="i1",
        author="user",
        content=types.Content(role="user", parts=[image, types.Part(text="What is it?")]),
        grounding_metadata=types.GroundingMetadata(
            search_entry_point=entry, web_search_queries=["q"]
        ),
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=1),
        citation_metadata=types.CitationMetadata(),
        custom_metadata={"k": [1, None]},
        actions=EventActions(
            artifact_delta={"f": 0},
            transfer_to_agent="b",
            escalate=True,
            requested_tool_confirmations={"c1": ToolConfirmation(hint="Which?", confirmed=False)},
        ),
        long_running_tool_ids={"t1", "t2"},
        error_code="E",
        error_message="failed",
        turn_complete=True,
        partial=False,
        interrupted=True,
        timestamp=1_700_000_000.123456,
        input_transcription=types.Transcription(text="in", finished=True),
    )
    await service.append_event(session, event)

    stored = await service.get_session(**PLACE)
    assert stored == session
    assert stored is not None
    assert stored.events == [event]


async def test_partial_events_are_not_stored(service: JazzmineSessionService) -> None:
    session = await service.create_session(**PLACE)
    await service.append_event(session, changing({"k": 1, "user:k": 1}, partial=True))

    assert (session.events, session.state) == ([], {})
    assert await service.get_session(**PLACE) == session


async def test_the_newest_events_or_those_from_a_time_are_read(
    service: JazzmineSessionService,
) -> None:
    session = await service.create_session(**PLACE)
    for number in range(1, 6):
        await service.append_event(
            session,
            said(str(number), timestamp=number, actions=EventActions(state_delta={"n": number})),
        )

    async def read(**config: Any) -> list[str]:
        found = await service.get_session(**PLACE, config=GetSessionConfig(**config))
        assert found is not None
        assert found.state == {"n": 5}
        return texts(found)

    assert await read() == ["1", "2", "3", "4", "5"]
    assert await read(num_recent_events=0) == []
    assert await read(num_recent_events=3) == ["3", "4", "5"]
    assert await read(num_recent_events=9) == ["1", "2", "3", "4", "5"]
    assert await read(after_timestamp=4.0) == ["4", "5"]
    assert await read(after_timestamp=50.0) == []
    assert await read(after_timestamp=4.0, num_recent_events=3) == ["4", "5"]


async def test_an_unknown_session_gets_no_event(service: JazzmineSessionService) -> None:
    session = await service.create_session(**PLACE)
    await service.delete_session(**PLACE)
    for event in (said("Rain?"), changing({"user:k": 1})):
        with pytest.raises(ValueError, match="Session s1 not found"):
            await service.append_event(session, event)
    assert session.events == []
    assert await service.get_user_state(**OWNER) == {}
    for missing in PLACE:
        with pytest.raises(ValueError, match=f"{missing} is missing"):
            await service.get_session(**{**PLACE, missing: ""})


async def test_an_append_may_be_repeated(service: JazzmineSessionService) -> None:
    session = await service.create_session(**PLACE)
    first = changing({"k": 1, "user:k": 1})
    await service.append_event(session, first)
    await service.append_event(session, changing({"k": 2, "user:k": 2}))
    await service.append_event(session, first)

    stored = await service.get_session(**PLACE)
    assert stored is not None
    assert len(stored.events) == 2
    assert stored.state == {"k": 2, "user:k": 2}


async def test_writers_with_old_sessions_all_get_in(service: JazzmineSessionService) -> None:
    session = await service.create_session(**PLACE)
    copies = [session.model_copy(deep=True) for _ in range(8)]
    await asyncio.gather(
        *(
            service.append_event(one, changing({f"k{number}": number, f"user:k{number}": number}))
            for number, one in enumerate(copies)
        )
    )

    stored = await service.get_session(**PLACE)
    assert stored is not None
    assert len(stored.events) == 8
    own = {f"k{number}": number for number in range(8)}
    assert stored.state == {**own, **{f"user:{key}": value for key, value in own.items()}}


async def test_state_that_sessions_share_stays_when_they_are_deleted(
    service: JazzmineSessionService,
) -> None:
    session = await service.create_session(**PLACE, state={"user:a": 1, "app:a": 1})
    await service.append_event(session, changing({"user:b": 2, "app:b": 2}))
    await service.delete_session(**PLACE)

    assert await service.get_user_state(**OWNER) == {"a": 1, "b": 2}
    other = await service.create_session(app_name="a1", user_id="u2")
    assert other.state == {"app:a": 1, "app:b": 2}
