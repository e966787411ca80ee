"""Histories of Agent Framework, as its own tests expect of its own stores, and more."""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import Any

import pytest
from agent_framework import (
    AgentSession,
    Content,
    HistoryProvider,
    InMemoryHistoryProvider,
    Message,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jazzmine import IntegrityError, MessageRole
from jazzmine import Message as StoredMessage
from jazzmine.adapters.agent_framework import JazzmineHistoryProvider
from jazzmine.core import MessageStore
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.agent_framework_program import agent
from tests.adapters.processes import run_together
from tests.adapters.values import same
from tests.behaviour.backends import Config

PROGRAM = "tests.adapters.agent_framework_program"


def provider_of(store: MessageStore | SyncMessageStore, **more: Any) -> JazzmineHistoryProvider:
    return JazzmineHistoryProvider(store, **{"user_id": "u1", "agent_id": "a1", **more})


@pytest.fixture
def provider(store: MessageStore) -> JazzmineHistoryProvider:
    return provider_of(store)


def said(*texts: str, role: Any = "user", ids: bool = False) -> list[Message]:
    return [Message(role, [text], message_id=f"m-{text}" if ids else None) for text in texts]


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


async def saved(provider: HistoryProvider, *calls: list[Message]) -> list[str]:
    state: dict[str, Any] = {}
    for messages in calls:
        await provider.save_messages("s1", messages, state=state)
    return texts(await provider.get_messages("s1", state=state))


async def kept(provider: HistoryProvider, *calls: list[Message]) -> list[str]:
    """What a provider has after some calls, which is what the framework's own one has."""
    found = await saved(provider, *calls)
    assert found == await saved(InMemoryHistoryProvider(), *calls)
    return found


async def test_a_session_that_was_not_written_is_empty(provider: JazzmineHistoryProvider) -> None:
    assert await provider.get_messages("s1") == []
    await provider.save_messages("s1", [])
    assert await provider.get_messages("s1") == []


async def test_messages_come_back_in_order(provider: JazzmineHistoryProvider) -> None:
    assert await saved(provider, said("1", "2"), said("3")) == ["1", "2", "3"]


TURN = [*said("hello"), *said("hi", role="assistant")]
NEXT_TURN = [*said("hello"), *said("hi again", role="assistant")]
SYSTEM = said("Be kind.", role="system")


@pytest.mark.parametrize(
    "calls",
    [
        [TURN, [*TURN, *said("rain?"), *said("yes", role="assistant")]],
        [TURN, [*SYSTEM, *TURN, *said("more")]],
        [said("1", "2", "3"), said("2", "3", "4")],
        [TURN, TURN, TURN],
        [said("yes", ids=True), said("yes", ids=True)],
    ],
    ids=["a transcript", "after others", "an overlap", "a repeated turn", "an id"],
)
async def test_what_was_stored_counts_as_in_the_frameworks_own_provider(
    provider: JazzmineHistoryProvider, calls: list[list[Message]]
) -> None:
    assert await kept(provider, *calls)


@pytest.mark.parametrize("calls", [[said("yes")] * 3, [TURN, NEXT_TURN]], ids=["input", "turn"])
async def test_a_repeated_input_is_kept(
    provider: JazzmineHistoryProvider, calls: list[list[Message]]
) -> None:
    assert await kept(provider, *calls) == [one.text for call in calls for one in call]


def called(value: object) -> list[Message]:
    return [Message("assistant", [Content.from_function_call("k", "f", arguments={"x": value})])]


@pytest.mark.parametrize("values", [(1, True), (1, 1.0), (0, False), (math.nan, math.nan)], ids=str)
async def test_values_are_equal_as_in_json(
    provider: JazzmineHistoryProvider, values: tuple[object, object]
) -> None:
    found = await kept(provider, *map(called, values))

    assert len(found) == (1 if repr(values[0]) == repr(values[1]) else 2)


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


@pytest.mark.parametrize(
    "contents",
    [
        [Content.from_function_call("k", "f", arguments={"n": 2**70, "x": math.inf})],
        [Content.from_function_result("k", result={"a": [None, {"b": "\x00"}]})],
        [Content.from_data(b"\x00\xff", "image/png")],
        [Content.from_text_reasoning(text="Hm.")],
        [Content.from_text("lone \ud800 surrogate")],
        [Content.from_text("x" * 1_000_000)],
        [Content.from_text("1", additional_properties={"more": [1, {"deep": True}]})],
        [],
    ],
    ids=lambda contents: f"{contents and contents[0].type}",
)
async def test_any_message_comes_back_equal(
    provider: JazzmineHistoryProvider, contents: Any
) -> None:
    message = Message(
        "assistant", contents, author_name="n", message_id="m", additional_properties={"k": [1]}
    )
    await provider.save_messages("s1", [message])

    (found,) = await provider.get_messages("s1")
    assert found.to_dict() == message.to_dict()


async def test_what_is_not_a_number_comes_back(provider: JazzmineHistoryProvider) -> None:
    call = Content.from_function_call("k", "f", arguments={"x": math.nan})
    message = Message("assistant", [call])
    await provider.save_messages("s1", [message])

    (found,) = await provider.get_messages("s1")
    assert same(found.to_dict(), message.to_dict())


async def test_messages_that_a_compaction_excluded_are_left_out(store: MessageStore) -> None:
    kept, excluded = said("1", "2")
    excluded.additional_properties["_excluded"] = True
    await provider_of(store).save_messages("s1", [kept, excluded])

    assert texts(await provider_of(store, skip_excluded=True).get_messages("s1")) == ["1"]
    assert texts(await provider_of(store).get_messages("s1")) == ["1", "2"]


async def test_a_person_can_read_the_conversation(
    provider: JazzmineHistoryProvider, store: MessageStore
) -> None:
    await agent(provider)[0].run("Rain?", session=AgentSession(session_id="s1"))
    picture = Content.from_data(b"\x00", "image/png")
    await provider.save_messages("s1", [Message("user", ["Look:", picture])])

    shown = await store.get_immediate_context("s1/jazzmine", 10)

    assert [(one.role.value, one.original_content) for one in shown] == [
        ("user", "Rain?"),
        ("assistant", 'weather({"city":"Lisbon"})'),
        ("tool", "rain in Lisbon"),
        ("assistant", "It rains."),
        ("user", "Look:\n[data]"),
    ]
    assert shown[1].invoked_tools == ["weather"]
    conversation = await store.get_conversation_by_id("s1/jazzmine")
    assert conversation is not None
    assert (conversation.user_id, conversation.agent_id) == ("u1", "a1")


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


async def test_a_cancelled_save_ends_first(provider: JazzmineHistoryProvider) -> None:
    for number in range(5):
        task = asyncio.create_task(provider.save_messages("s1", said(str(number))))
        for _ in range(number + 1):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

        assert texts(await provider.get_messages("s1")) == [str(one) for one in range(number + 1)]


async def test_saves_at_once_lose_nothing_and_stay_together(
    provider: JazzmineHistoryProvider,
) -> None:
    pairs = [said(f"{number} 0", f"{number} 1") for number in range(10)]
    await asyncio.gather(*(provider.save_messages("s1", pair) for pair in pairs))

    found = texts(await provider.get_messages("s1"))

    assert sorted(found[::2]) == [f"{number} 0" for number in range(10)]
    assert [one.split()[0] for one in found[::2]] == [one.split()[0] for one in found[1::2]]


# The framework's own loop, and several processes


async def test_an_agent_remembers_its_turns(provider: JazzmineHistoryProvider) -> None:
    guide, client = agent(provider)
    session = AgentSession(session_id="s1")
    for question in ("Rain?", "And now?"):
        assert (await guide.run(question, session=session)).text == "It rains."

    sent = [message.role for message in client.inputs[2]]
    assert sent == ["user", "assistant", "tool", "assistant", "user"]
    assert len(await provider.get_messages("s1")) == 8
    assert not session.state.get("jazzmine")


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


def test_a_provider_is_used_from_several_loops(sync_store: SyncMessageStore) -> None:
    provider = provider_of(sync_store)
    asyncio.run(provider.save_messages("s1", said("1")))
    asyncio.run(provider.save_messages("s1", said("2")))

    assert texts(asyncio.run(provider.get_messages("s1"))) == ["1", "2"]


def test_a_second_process_goes_on(config: Config) -> None:
    run_together(PROGRAM, config, ("turn", "Rain?"))
    (printed,) = run_together(PROGRAM, config, ("turn", "And now?"))

    assert printed.count('"function_call"') == 2
    assert printed.index("Rain?") < printed.index("It rains.") < printed.index("And now?")


def test_pairs_of_four_processes_stay_together(config: Config) -> None:
    run_together(PROGRAM, config, *(("add", name, "50") for name in "abcd"))
    with SyncMessageStore.initialize(config) as store:
        added = texts(asyncio.run(provider_of(store).get_messages("s1")))

    assert len(set(added)) == len(added) == 400
    assert [one[:-2] for one in added[::2]] == [one[:-2] for one in added[1::2]]


def test_a_transcript_that_four_processes_get_stays_together(config: Config) -> None:
    run_together(PROGRAM, config, *[("transcript", "20")] * 4)

    with SyncMessageStore.initialize(config) as store:
        for size in range(2, 21, 2):
            found = texts(asyncio.run(provider_of(store).get_messages(f"s{size}")))
            assert found == [f"{number}" for number in range(size)]


async def test_a_view_of_one_user_has_that_users_sessions(store: MessageStore) -> None:
    own = provider_of(store.scoped(user_id="u1"))
    of_another = provider_of(store.scoped(user_id="u2"), user_id="u2")
    await own.save_messages("s1", said("one"))

    assert await of_another.get_messages("s1") == []
    with pytest.raises(IntegrityError, match="its id is taken"):
        await of_another.save_messages("s1", said("two"))

    assert texts(await own.get_messages("s1")) == ["one"]
