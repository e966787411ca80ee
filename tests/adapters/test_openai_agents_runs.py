"""Runs of the OpenAI Agents SDK with a session: its own loop, compaction, several processes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from agents import RunConfig, Runner
from agents.memory import OpenAIResponsesCompactionSession, SessionSettings

from jazzmine.core import MessageStore
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.openai_agents_program import agent
from tests.adapters.openai_agents_sessions import contents, said, session_of
from tests.adapters.processes import run_together
from tests.behaviour.backends import Config

PROGRAM = "tests.adapters.openai_agents_program"


@pytest.fixture
def session(store: MessageStore) -> Any:
    return session_of(store)


async def test_an_agent_remembers_its_turns(session: Any) -> None:
    guide, model = agent()

    first = await Runner.run(guide, "Rain?", session=session)
    second = await Runner.run(guide, "And now?", session=session)

    assert first.final_output == second.final_output == "It rains."
    sent = [item.get("type") or item["role"] for item in model.inputs[2]]
    assert sent == ["user", "function_call", "function_call_output", "message", "user"]
    assert len(await session.get_items()) == 8


@pytest.mark.parametrize(("limit", "sent"), [(2, 3), (0, 1), (None, 5), (100, 5)])
async def test_a_run_limits_the_history(session: Any, limit: int | None, sent: int) -> None:
    guide, model = agent()
    await session.add_items(said("1", "2", "3", "4"))

    settings = RunConfig(session_settings=SessionSettings(limit=limit))
    await Runner.run(guide, "Rain?", session=session, run_config=settings)

    assert len(model.inputs[0]) == sent


def test_an_agent_runs_in_a_loop_for_each_call(sync_store: SyncMessageStore) -> None:
    guide, model = agent()
    session = session_of(sync_store)

    # `Runner.run_sync` leaves the thread's event loop open.
    for question in ("Rain?", "And now?"):
        with ThreadPoolExecutor(1, initializer=_new_loop) as thread:
            thread.submit(Runner.run_sync, guide, question, session=session).result()
            thread.submit(_close_loop).result()

    assert len(model.inputs[2]) == 5


def _new_loop() -> None:
    asyncio.set_event_loop(asyncio.new_event_loop())


def _close_loop() -> None:
    asyncio.get_event_loop().close()


async def test_a_session_may_be_compacted(session: Any) -> None:
    wrapped = OpenAIResponsesCompactionSession("s1", session, model="gpt-4.1")
    await Runner.run(agent()[0], "Rain?", session=wrapped)

    assert len(await session.get_items()) == 4
    await wrapped.clear_session()
    assert await session.get_items() == []


# Several processes


def test_a_second_process_goes_on(shared_config: Config) -> None:
    run_together(PROGRAM, shared_config, ("turn", "Rain?"))
    (printed,) = run_together(PROGRAM, shared_config, ("turn", "And now?"))

    assert printed.count('"function_call"') == 2
    assert printed.index("Rain?") < printed.index("It rains.") < printed.index("And now?")


def test_items_of_four_processes_are_added_and_popped_once(shared_config: Config) -> None:
    run_together(PROGRAM, shared_config, *(("add", name, "50") for name in "abcd"))
    with SyncMessageStore.initialize(shared_config) as store:
        added = contents(asyncio.run(session_of(store).get_items()))

    popped = run_together(PROGRAM, shared_config, *[("pop",)] * 4)

    assert len(set(added)) == len(added) == 400
    assert [one[:-2] for one in added[::2]] == [one[:-2] for one in added[1::2]]
    for name in "abcd":
        assert [one for one in added if one[0] == name] == [
            f"{name} {number} {half}" for number in range(50) for half in (0, 1)
        ]
    assert sorted(line for text in popped for line in text.splitlines()) == sorted(added)
