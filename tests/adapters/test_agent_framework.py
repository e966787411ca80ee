"""Histories of Agent Framework, as its own tests expect of its own stores, and more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_framework import AgentSession, Content, InMemoryHistoryProvider, Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jazzmine import Message as StoredMessage
from jazzmine import MessageRole
from jazzmine.adapters.agent_framework import JazzmineHistoryProvider
from jazzmine.core import MessageStore
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.scripted_agent_framework import agent
from tests.adapters.traces import check_recorded_turn, only_trace


def provider_of(store: MessageStore | SyncMessageStore, **more: Any) -> JazzmineHistoryProvider:
    return JazzmineHistoryProvider(store, **{"user_id": "u1", "agent_id": "a1", **more})


@pytest.fixture
def provider(store: MessageStore) -> JazzmineHistoryProvider:
    return provider_of(store)


def said(*texts: str, role: Any = "user", ids: bool = False) -> list[Message]:
    return [Message(role, [text], message_id=f"m-{text}" if ids else None) for text in texts]


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


ANY_MESSAGES = st.lists(
    st.builds(
        lambda text, role, ids: said(text, role=role, ids=ids)[0],
        st.sampled_from("ab"),
        st.sampled_from(["user", "assistant"]),
        st.booleans(),
    ),
    max_size=4,
)


@given(calls=st.lists(ANY_MESSAGES, max_size=4), flags=st.integers(0, 15))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_saves_have_the_result_of_the_frameworks_own_provider(
    sync_store: SyncMessageStore, calls: list[list[Message]], flags: int
) -> None:
    sync_store.delete_conversation("s1/jazzmine")
    ours, theirs, state = provider_of(sync_store), InMemoryHistoryProvider(), dict[str, Any]()
    for number, messages in enumerate(calls):
        asyncio.run(ours.save_messages("s1", messages))
        asyncio.run(theirs.save_messages("s1", messages, state=state))
        stored = sync_store.get_messages_by_conversation_id("s1/jazzmine")
        if stored and flags >> number & 1:
            sync_store.flag_message(stored[-1].id)

    for message in sync_store.get_messages_by_conversation_id("s1/jazzmine"):
        sync_store.flag_message(message.id, False)
    expected = [message.to_dict() for message in state.get("messages", [])]
    assert [message.to_dict() for message in asyncio.run(ours.get_messages("s1"))] == expected


async def test_sessions_and_sources_do_not_see_each_other(store: MessageStore) -> None:
    places = [("s", "t"), ("s", "u"), ("s/t", "u"), ("s", "t/u"), ("s%2Ft", "u")]
    for session, source in places:
        await provider_of(store, source_id=source).save_messages(session, said(session + source))

    for session, source in places:
        found = await provider_of(store, source_id=source).get_messages(session)
        assert texts(found) == [session + source]


@pytest.mark.parametrize("missing", [None, ""])
async def test_a_missing_session_is_a_value_error(
    provider: JazzmineHistoryProvider, missing: Any
) -> None:
    with pytest.raises(ValueError, match="session_id is missing"):
        await provider.get_messages(missing)
    with pytest.raises(ValueError, match="session_id is missing"):
        await provider.save_messages(missing, said("1"))


@pytest.mark.parametrize("name", ["user_id", "agent_id", "source_id"])
async def test_a_missing_id_is_a_value_error(store: MessageStore, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is missing"):
        provider_of(store, **{name: ""})


async def test_all_flags_are_passed_on(store: MessageStore) -> None:
    flags: dict[str, Any] = {
        "load_messages": False,
        "store_inputs": False,
        "store_context_messages": True,
        "store_context_from": {"other"},
        "store_outputs": False,
        "skip_excluded": True,
    }
    provider = provider_of(store, source_id="audit", **flags)

    assert {name: getattr(provider, name) for name in flags} == flags
    assert provider.source_id == "audit"


async def test_messages_that_a_compaction_excluded_are_left_out(store: MessageStore) -> None:
    kept, excluded = said("1", "2")
    excluded.additional_properties["_excluded"] = True
    await provider_of(store).save_messages("s1", [kept, excluded])

    assert texts(await provider_of(store, skip_excluded=True).get_messages("s1")) == ["1"]
    assert texts(await provider_of(store).get_messages("s1")) == ["1", "2"]


async def test_a_person_can_read_what_is_beside_a_picture(
    provider: JazzmineHistoryProvider, store: MessageStore
) -> None:
    picture = Content.from_data(b"\x00", "image/png")
    await provider.save_messages("s1", [Message("user", ["Look:", picture])])

    (shown,) = await store.get_immediate_context("s1/jazzmine", 10)
    assert shown.original_content == "Look:\n[data]"


async def test_messages_of_no_session_become_messages_of_their_text(
    provider: JazzmineHistoryProvider, store: MessageStore
) -> None:
    await provider.save_messages("s1", said("1"))
    note = StoredMessage(
        conversation_id="s1/jazzmine",
        user_id="u1",
        role=MessageRole.COLLEAGUE_ASSISTANT,
        original_content="2",
    )
    await store.append_messages("s1/jazzmine", [note])

    found = await provider.get_messages("s1")

    assert [(one.role, one.text) for one in found] == [("user", "1"), ("assistant", "2")]


# The framework's own loop, and several processes


async def test_a_provider_for_audits_stores_and_does_not_load(store: MessageStore) -> None:
    audit = provider_of(store, source_id="audit", load_messages=False, store_context_messages=True)
    own = InMemoryHistoryProvider("own", load_messages=False, store_context_messages=True)
    guide, client = agent(provider_of(store), audit, own)
    session = AgentSession(session_id="s1")
    for question in ("Rain?", "And now?"):
        await guide.run(question, session=session)

    assert len(client.inputs[2]) == 5
    stored = texts(await audit.get_messages("s1"))
    assert stored == texts(session.state["own"]["messages"])
    assert len(stored) >= 8


async def test_a_run_without_a_session_is_not_recorded(
    provider: JazzmineHistoryProvider, store: MessageStore
) -> None:
    guide, _ = agent(middleware=provider.recorder())
    assert (await guide.run("Rain?")).text == "It rains."
    assert await store.get_conversations_by_user_id("u1") == []

    recorded, _ = agent(provider, middleware=provider.recorder())
    async for _ in recorded.run("Rain?", session=AgentSession(session_id="s1"), stream=True):
        pass
    await guide.run("Rain?")
    await provider.save_messages("s1", said("later", "later still", role="assistant"))
    check_recorded_turn(await only_trace(store, "s1/jazzmine"))
