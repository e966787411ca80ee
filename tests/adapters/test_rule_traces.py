"""One trace a run, whatever ends it, and nothing that counts twice."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from jazzmine import Conversation, Message, MessageRole, TurnTrace
from jazzmine.adapters._calls import called_directly, completed
from jazzmine.adapters._conversations import append_with_traces
from jazzmine.adapters._recorder import RunRecorder
from jazzmine.core import MessageStore as AsyncStore
from jazzmine.records.usage import TraceFilter
from jazzmine.sync import MessageStore
from tests.adapters.played import PLAYED, Played
from tests.adapters.test_rule_store_calls import fork, opened
from tests.adapters.traces import check_recorded_turn

EACH = pytest.mark.parametrize("name", PLAYED)


def traces(agent: Played) -> list[TurnTrace]:
    return agent.store.get_turn_traces_by_conversation_id(agent.conversation_id)


def tokens(agent: Played) -> int:
    used = agent.store.summarize_usage(TraceFilter(user_id="u1"), by="model")
    return sum(summary.total_tokens for summary in used)


@EACH
async def test_a_person_can_read_the_conversation(name: str) -> None:
    with opened(name) as agent:
        await agent.run("Rain?")
        shown = agent.store.get_immediate_context(agent.conversation_id, 10)

    returned = '{"result":"rain in Lisbon"}' if name == "google_adk" else "rain in Lisbon"
    assert [(one.role.value, one.original_content) for one in shown] == [
        ("user", "Rain?"),
        ("assistant", 'weather({"city":"Lisbon"})'),
        ("tool", returned),
        ("assistant", "It rains."),
    ]
    assert shown[1].invoked_tools == ["weather"]
    assert {one.user_id for one in shown} == {"u1"}


@EACH
async def test_a_run_leaves_one_trace_with_its_tokens(name: str) -> None:
    with opened(name) as agent:
        await agent.run("Rain?")
        agent.prepare()  # as another process would
        await agent.run("And now?")

        assert [trace.turn_number for trace in traces(agent)] == [1, 2]
        for trace in traces(agent):
            check_recorded_turn(trace)
            assert agent.store.get_message_by_id(trace.message_id) is not None
        conversation = agent.store.get_conversation_by_id(agent.conversation_id)
        assert conversation is not None
        assert conversation.title == "Rain?"


# Pydantic AI's is saved by the caller, and Claude's has no stream here.
@pytest.mark.parametrize("name", sorted(PLAYED.keys() - {"claude_agent_sdk", "pydantic_ai"}))
async def test_a_streamed_run_leaves_one_trace(name: str) -> None:
    with opened(name) as agent:
        async for _ in agent.stream("Rain?"):
            pass

        (trace,) = traces(agent)
        check_recorded_turn(trace)


@EACH
@pytest.mark.parametrize("error", [OSError("no network"), asyncio.CancelledError()], ids=repr)
async def test_a_run_that_ends_in_its_tool_leaves_one_trace(name: str, error: Exception) -> None:
    def fail() -> None:
        raise error

    with opened(name) as agent:
        agent.on_call = fail
        with suppress(OSError, asyncio.CancelledError):
            await asyncio.wait_for(agent.run("Rain?"), 20)

        (trace,) = traces(agent)
        assert trace.total_tokens >= 15
        assert (trace.user_id, trace.agent_id) == ("u1", "a1")
        if name != "claude_agent_sdk":  # its program tells the tool's error, which is not played
            (tool,) = trace.tool_traces
            assert not tool.success


@EACH
async def test_a_copy_counts_nothing_twice(name: str) -> None:
    with opened(name) as agent:
        await agent.run("Rain?")
        before = tokens(agent)
        fork(agent, f"{agent.conversation_id}-copied")

        assert tokens(agent) == before > 0


def test_runs_at_once_have_numbers_of_their_own(sync_store: MessageStore) -> None:
    sync_store.store_conversation(Conversation(id="c", user_id="u", agent_id="a"))
    store = called_directly(sync_store)

    def turn(number: int) -> None:
        run = RunRecorder(store, "c", "u", "a")
        said = [
            Message(conversation_id="c", user_id="u", role=role, original_content=f"{number}")
            for role in (MessageRole.USER, MessageRole.ASSISTANT)
        ]

        run.begin_model_call(1, "m")
        run.end_model_call(1, {"prompt_tokens": 1})
        completed(append_with_traces(store, "c", said, [(run, said)]))
        completed(run.finish())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(turn, range(8)))

    found = sync_store.get_turn_traces_by_conversation_id("c")
    assert [trace.turn_number for trace in found] == list(range(1, 9))


async def test_runs_that_fail_at_once_have_numbers_of_their_own(store: AsyncStore) -> None:
    await store.store_conversation(Conversation(id="c", user_id="u", agent_id="a"))

    async def turn(number: int) -> None:
        run = RunRecorder(store, "c", "u", "a")
        said = Message(
            conversation_id="c", user_id="u", role=MessageRole.USER, original_content="?"
        )
        run.begin_model_call(1, "m")
        await append_with_traces(store, "c", [said], [(run, [said])])
        await run.finish(OSError("no network"))

    await asyncio.gather(*map(turn, range(4)))

    found = await store.get_turn_traces_by_conversation_id("c")
    assert len({trace.turn_number for trace in found}) == 4
