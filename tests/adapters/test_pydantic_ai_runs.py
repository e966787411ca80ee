"""Agents of Pydantic AI with a store: the framework's own loop, and several processes."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai.conversation import Conversation

from jazzmine.adapters.pydantic_ai import JazzmineConversationStore
from jazzmine.core import MessageStore
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.processes import run_together
from tests.adapters.pydantic_ai_conversations import loaded
from tests.adapters.pydantic_ai_program import agent
from tests.behaviour.backends import Config

PROGRAM = "tests.adapters.pydantic_ai_program"


@pytest.fixture
def conversations(store: MessageStore) -> JazzmineConversationStore:
    return JazzmineConversationStore(store, agent_id="a1", user_id="u1")


async def test_an_agent_remembers_its_turns(conversations: JazzmineConversationStore) -> None:
    guide = agent()
    for question in ("Rain?", "And now?"):
        conversation = await conversations.load("c1") or Conversation(conversation_id="c1")
        result = await guide.run(question, conversation=conversation)
        assert result.output == "It rains."
        await conversations.save(result)

    saved = await conversations.load("c1")
    assert saved is not None
    assert len(saved.messages) == 8
    assert saved.usage.requests == 4
    assert saved.usage.tool_calls == 2


def test_a_second_process_goes_on(config: Config) -> None:
    run_together(PROGRAM, config, ("turn", "Rain?"))
    (printed,) = run_together(PROGRAM, config, ("turn", "And now?"))

    assert printed.count('"tool-call"') == 2
    assert printed.index("Rain?") < printed.index("It rains.") < printed.index("And now?")


def test_a_run_that_was_killed_in_a_tool_goes_on(config: Config) -> None:
    run_together(PROGRAM, config, ("turn", "Rain?"))
    run_together(PROGRAM, config, ("killed", "And now?"))
    (printed,) = run_together(PROGRAM, config, ("turn", "And now?"))

    # Nothing is stored of a run before it is saved.
    assert printed.count("And now?") == 1
    assert printed.count('"tool-call"') == printed.count('"tool-return"') == 2


def test_pairs_of_four_processes_stay_together(config: Config) -> None:
    run_together(PROGRAM, config, *(("add", name, "50") for name in "abcd"))
    with SyncMessageStore.initialize(config) as store:
        conversations = JazzmineConversationStore(store, agent_id="a1", user_id="u1")
        added = [str(text) for text in asyncio.run(loaded(conversations, "c1"))]

    assert len(set(added)) == len(added) == 400
    assert [one[:-2] for one in added[::2]] == [one[:-2] for one in added[1::2]]
