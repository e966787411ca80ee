"""What an application does with the store is allowed: adapters × calls, each cell a test.

The framework then loads what is left, without halves of pairs, and goes on; so it does if the call
is made in the middle of a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, cast

import pytest

from jazzmine import Message, MessageRole
from jazzmine.sync import MessageStore
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from tests.adapters.frameworks import missing
from tests.adapters.played import PLAYED, Played, played


@contextmanager
def opened(name: str, url: str = "memory:") -> Iterator[Played]:
    """Open an agent of a framework, on stores of its own."""
    if reason := missing(name):
        pytest.skip(reason)
    with (
        MessageStore.initialize(url) as store,
        LongTermMemoryStore.initialize("memory:") as items,
    ):
        yield played(name, store, items)


def stored(agent: Played) -> list[Message]:
    return agent.store.get_messages_by_conversation_id(agent.conversation_id)


def _delete(index: int) -> Callable[[Played], object]:
    return lambda agent: agent.store.delete_message(stored(agent)[index].id)


def _flag(index: int) -> Callable[[Played], object]:
    return lambda agent: agent.store.flag_message(stored(agent)[index].id)


def _say(agent: Played) -> None:
    note = Message(
        conversation_id=agent.conversation_id,
        user_id="u1",
        role=MessageRole.SYSTEM,
        original_content="A colleague takes over.",
    )
    agent.store.append_messages(agent.conversation_id, [note])


def _edit(agent: Played) -> None:
    first = stored(agent)[0]
    agent.store.edit_message(first.id, sentiment_score=0.5)


def _rewind(agent: Played) -> None:
    agent.store.rewind_conversation(agent.conversation_id, after=stored(agent)[0].id)


def fork(agent: Played, new_id: str) -> None:
    source = agent.store.get_conversation_by_id(agent.conversation_id)
    assert source is not None
    metadata = dict(source.metadata)
    if "strands_session" in metadata:
        metadata["strands_session"] = new_id.partition("/")[0]
    copy = source.model_copy(update={"id": new_id, "metadata": metadata})
    agent.store.fork_conversation(source.id, copy)


CALLS: dict[str, Callable[[Played], object]] = {
    **{f"delete {index}": _delete(index) for index in (0, 1, 2, -1)},
    **{f"flag {index}": _flag(index) for index in (0, 1, 2, -1)},
    "plain message": _say,
    "edit": _edit,
    "rewind": _rewind,
    "pop": lambda agent: agent.store.pop_message(agent.conversation_id),
    "title": lambda agent: agent.store.edit_conversation(agent.conversation_id, title="Mine"),
    "fork": lambda agent: fork(agent, f"{agent.conversation_id}-copied"),
    "erase": lambda agent: agent.store.erase_user("u1"),
}


def is_whole(history: list[tuple[str, Any]]) -> bool:
    calls: set[str] = set()
    for kind, key in history:
        calls |= {key} if kind == "call" else set()
        if kind == "answer" and key not in calls:
            return False
    return calls <= {key for kind, key in history if kind == "answer"}


def cells(calls: Iterable[str]) -> pytest.MarkDecorator:
    """Return the table of adapters and calls."""
    pairs = [(name, call) for name in PLAYED for call in calls]
    return pytest.mark.parametrize("cell", pairs, ids=" ".join)


@cells(CALLS)
async def test_the_framework_goes_on_after_a_call(cell: tuple[str, str]) -> None:
    with opened(cell[0]) as agent:
        await goes_on_after(agent, cell[1])


async def goes_on_after(agent: Played, call: str) -> None:
    await agent.run("Rain?")
    before = await agent.history()
    CALLS[call](agent)

    left = await agent.history()
    if not agent.is_exact:
        assert is_whole(left)
    if call in ("plain message", "edit", "title", "fork"):
        assert left[: len(before)] == before
    if call in ("pop", "delete -1") and agent.is_exact:
        assert left == before[:-1]
    await agent.run("And now?")
    assert (await agent.history())[-1] == ("said", "It rains.")


# Calls after which a run ends with an error of its own, as what it began with is gone.
MAY_FAIL = {"erase", "pop", "delete -1"}


@cells(sorted(CALLS.keys() - {"rewind", "delete 2", "flag 2"}))
async def test_the_framework_goes_on_beside_a_call(cell: tuple[str, str]) -> None:
    """The call is made while the tool of a second run runs."""
    with opened(cell[0]) as agent:
        await goes_on_beside(agent, cell[1])


async def goes_on_beside(agent: Played, call: str) -> None:
    await agent.run("Rain?")
    agent.on_call = lambda: CALLS[call](agent)
    with suppress(Exception) if call in MAY_FAIL else nullcontext():
        await agent.run("And now?")
    agent.on_call = lambda: None

    await agent.run("Still?")

    assert (await agent.history())[-1] == ("said", "It rains.")


# The saver copies a thread of LangGraph, not the store.
@pytest.mark.parametrize("name", [name for name in PLAYED if name != "langgraph"])
async def test_a_copy_is_a_conversation_of_its_own(name: str) -> None:
    with opened(name) as agent:
        await copy_stands_alone(agent)


async def copy_stands_alone(agent: Played) -> None:
    await agent.run("Rain?")
    source = [text for kind, text in await agent.history() if kind == "said"]
    copy = f"copied-{agent.conversation_id}"
    if agent.conversation_id.count("/") > 1:
        copy = f"{agent.conversation_id}-copied"
    fork(agent, copy)

    async def said() -> list[str]:
        return [text for kind, text in await agent.history(copy) if kind == "said"]

    assert await said() == source
    agent.store.delete_conversation(agent.conversation_id)

    assert await asyncio.wait_for(said(), 10) == source
    await agent.run("Rain again?")
    assert await said() == source


@pytest.mark.parametrize("name", PLAYED)
async def test_the_conversation_of_a_guest_who_signs_in_goes_on(name: str) -> None:
    with opened(name) as agent:
        await agent.run("Rain?")
        agent.store.move_user("u1", "u2")
        agent.items.move_user("u1", "u2")

        await agent.run("And now?")

        assert len(await agent.history()) == 8
        conversation = agent.store.get_conversation_by_id(agent.conversation_id)
        assert conversation is not None
        assert conversation.user_id == "u2"


async def test_a_session_of_adk_that_was_moved_is_listed_as_it_is_read() -> None:
    with opened("google_adk") as agent:
        await agent.run("Rain?")
        agent.store.move_user("u1", "u2")
        fork(agent, "a copy of any id")

        service = cast(Any, agent).service
        listed, _ = (await service.list_sessions(app_name="a1", user_id="u2")).sessions
        place = {"app_name": listed.app_name, "user_id": listed.user_id, "session_id": listed.id}
        found = await service.get_session(**place)
        assert len(found.events) == 4


async def test_a_scope_of_pydantic_ai_is_the_user_also_after_a_move() -> None:
    with opened("pydantic_ai") as agent:
        from pydantic_ai.conversation import Conversation

        conversations = cast(Any, agent).conversations
        await conversations.save(Conversation(conversation_id="c1"), scope="guest")
        agent.store.move_user("guest", "ana")

        assert await conversations.load("c1", scope="guest") is None
        assert await conversations.load("c1", scope="ana") is not None
        assert [found.scope for found in await conversations.list_conversations()] == ["ana"]
