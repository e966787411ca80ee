"""Sessions of the OpenAI Agents SDK, as its own tests expect of its own stores, and more."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest
from agents.memory import Session, SessionSettings, SQLiteSession

from jazzmine import Conversation, Message, MessageRole
from jazzmine.adapters.openai_agents import JazzmineSession
from jazzmine.core import MessageStore
from tests.adapters.scripted_openai_agents import CALL, OUTPUT, contents, said, session_of


@pytest.fixture
def session(store: MessageStore) -> Any:
    return session_of(store)


def test_a_session_implements_the_protocol(session: Any) -> None:
    assert isinstance(session, Session)


NOTHING = object()
CALLS: list[Callable[[random.Random], tuple[str, Any]]] = [
    lambda draw: ("add_items", said(*(str(draw.random()) for _ in range(draw.randrange(4))))),
    # What the SDK's compaction asks for when it means all.
    lambda draw: ("get_items", draw.choice([None, 1, 2, 5, 2**31 - 1])),
    lambda draw: ("pop_item", NOTHING),
    lambda draw: ("clear_session", NOTHING),
]


async def test_any_calls_have_the_answers_of_the_frameworks_own_session(
    store: MessageStore,
) -> None:
    draw = random.Random(5)
    sessions = [(session_of(store, name), SQLiteSession(name)) for name in ("one", "other")]
    for _ in range(200):
        name, given = draw.choices(CALLS, [4, 4, 4, 1])[0](draw)
        arguments = () if given is NOTHING else (given,)
        ours, theirs = draw.choice(sessions)

        expected = await getattr(theirs, name)(*arguments)
        assert await getattr(ours, name)(*arguments) == expected, (name, given)


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_of_nothing_gives_nothing(session: Any, limit: int) -> None:
    await session.add_items(said("1", "2"))

    assert await session.get_items(limit=limit) == []


async def test_a_limit_does_not_begin_with_an_output_without_its_call(session: Any) -> None:
    await session.add_items([CALL, OUTPUT, *said("thanks")])

    assert await session.get_items(limit=2) == said("thanks")


async def test_a_limit_does_not_keep_a_call_without_the_reasoning_before_it(session: Any) -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    calls = [{**CALL, "call_id": name} for name in "abc"]
    outputs = [{**OUTPUT, "call_id": name} for name in "abc"]
    items = [reasoning, *calls, *outputs, *said("thanks")]
    await session.add_items(items)

    found = [await session.get_items(limit=limit) for limit in range(1, 9)]
    assert found == [said("thanks")] * 7 + [items]


async def test_no_items_change_nothing(session: Any, store: MessageStore) -> None:
    await session.add_items([])

    assert await session.get_items() == []
    assert await store.get_conversation_by_id("s1") is None


async def test_pops_return_the_newest_item_first(session: Any) -> None:
    await session.add_items([*said("1"), CALL, OUTPUT])

    assert [await session.pop_item() for _ in range(4)] == [OUTPUT, CALL, *said("1"), None]
    assert await session.get_items() == []


async def test_pops_at_once_return_each_item_once(session: Any) -> None:
    await session.add_items(said(*map(str, range(10))))

    popped = await asyncio.gather(*(session.pop_item() for _ in range(12)))

    assert sorted(contents([one for one in popped if one])) == sorted(map(str, range(10)))


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": None},
        {"role": "user"},
        {"role": ["user"], "content": 3.5, "id": {"not": "an id"}},
        {"type": "computer_call", "action": {"type": "click", "x": 1}, "call_id": "k"},
        {},
    ],
    ids=lambda item: f"{item!r:.40}",
)
async def test_any_item_comes_back_equal(session: Any, item: Any) -> None:
    await session.add_items([item])

    assert await session.get_items() == [item]
    assert await session.get_items(limit=1) == [item]
    assert await session.pop_item() == item


async def test_items_with_one_id_are_several_items(session: Any) -> None:
    twice = [{"id": "same", "role": "user", "content": text} for text in ("1", "2")]

    await session.add_items(twice)
    await session.add_items(twice)

    assert await session.get_items() == twice * 2


@pytest.mark.parametrize("one", [{"role": "user", "content": "1"}, "1"])
async def test_one_item_instead_of_a_list_is_refused(session: Any, one: object) -> None:
    with pytest.raises(TypeError, match="items must be a list"):
        await session.add_items(one)

    assert await session.get_items() == []


async def test_a_person_can_read_the_conversation(session: Any, store: MessageStore) -> None:
    parts = [{"type": "input_text", "text": "Look:"}, {"type": "input_image", "image_url": "data:"}]
    await session.add_items(
        [
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": parts},
            CALL,
            OUTPUT,
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "R\ud800ain."}]},
            {"type": "compaction", "encrypted_content": "abc"},
        ]
    )

    shown = await store.get_immediate_context("s1", 10)

    assert [(one.role.value, one.original_content) for one in shown] == [
        ("system", "Be kind."),
        ("user", "Look:\n[input_image]"),
        ("assistant", 'weather({"city":"X"})'),
        ("tool", "rain"),
        ("assistant", "Hm."),
        ("assistant", "R\ufffdain."),
        ("assistant", "[compaction]"),
    ]
    assert shown[2].invoked_tools == ["weather"]


async def test_the_conversation_has_its_user_and_agent(session: Any, store: MessageStore) -> None:
    await session.add_items(said("1"))

    stored = await store.get_conversation_by_id("s1")

    assert stored is not None
    assert (stored.user_id, stored.agent_id) == ("u1", "a1")


async def test_a_stored_conversation_keeps_its_title(session: Any, store: MessageStore) -> None:
    await store.store_conversation(
        Conversation(id="s1", user_id="u1", agent_id="a1", title="A trip")
    )

    await session.add_items(said("1"))
    await session.clear_session()

    stored = await store.get_conversation_by_id("s1")
    assert stored is not None
    assert stored.title == "A trip"


async def test_messages_of_no_session_become_items_of_their_text(
    session: Any, store: MessageStore
) -> None:
    await session.add_items(said("1"))
    await store.store_message(
        Message(
            conversation_id="s1",
            user_id="u1",
            role=MessageRole.COLLEAGUE_ASSISTANT,
            original_content="2",
        )
    )

    assert await session.get_items() == [*said("1"), {"role": "assistant", "content": "2"}]


@pytest.mark.parametrize("limit", [None, 5])
async def test_flagged_messages_are_left_out(
    session: Any, store: MessageStore, limit: int | None
) -> None:
    await session.add_items(said("1", "2", "3"))
    await store.flag_message((await store.get_messages_by_conversation_id("s1"))[1].id)

    assert contents(await session.get_items(limit)) == ["1", "3"]


async def test_a_cancelled_add_ends_first(session: Any, store: MessageStore) -> None:
    for number in range(5):
        task = asyncio.create_task(session.add_items(said(str(number))))
        for _ in range(number + 1):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

        assert contents(await session.get_items()) == [str(one) for one in range(number + 1)]


@pytest.mark.parametrize("given", [{"limit": 2}, SessionSettings(limit=2)])
async def test_settings_limit_what_is_read(store: MessageStore, given: Any) -> None:
    session = session_of(store, session_settings=given)
    await session.add_items(said("1", "2", "3"))

    assert session.session_settings == SessionSettings(limit=2)
    assert contents(await session.get_items()) == ["2", "3"]
    assert contents(await session.get_items(limit=1)) == ["3"]
    assert contents(await session.get_items(limit=9)) == ["1", "2", "3"]


@pytest.mark.parametrize("name", ["session_id", "user_id", "agent_id"])
@pytest.mark.parametrize("missing", [None, ""])
def test_a_missing_id_is_a_value_error(store: MessageStore, name: str, missing: Any) -> None:
    ids: Any = {"session_id": "s1", "user_id": "u1", "agent_id": "a1", name: missing}
    with pytest.raises(ValueError, match=f"{name} is missing"):
        JazzmineSession(store, **ids)
