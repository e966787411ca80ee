"""Traces of runs of the OpenAI Agents SDK, recorded by its own hooks in its own loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from agents import Agent, FunctionTool, Runner

from jazzmine import Conversation
from jazzmine.core import MessageStore
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.scripted_openai_agents import (
    CALL,
    OUTPUT,
    ScriptedModel,
    agent,
    said,
    session_of,
)
from tests.adapters.traces import check_recorded_turn, only_trace


async def run(session: Any, guide: Any, question: Any = "Rain?") -> None:
    async with session.recorder() as hooks:
        await Runner.run(guide, question, session=session, hooks=hooks)


async def test_a_title_is_given_once_and_kept(store: MessageStore) -> None:
    await store.store_conversation(
        Conversation(id="s2", user_id="u1", agent_id="a1", title="Weather")
    )
    for name, question in (("s1", "Will it rain " + 30 * "and rain "), ("s1", "b"), ("s2", "a")):
        await run(session_of(store, name), agent()[0], question)

    found = [await store.get_conversation_by_id(name) for name in ("s1", "s2")]
    first, second = (one.title for one in found if one is not None)
    assert first.startswith("Will it rain and rain")
    assert first.endswith("…")
    assert len(first) <= 60
    assert second == "Weather"


async def test_a_run_that_a_tool_ends_leaves_its_error(store: MessageStore) -> None:
    guide, _ = agent()
    (tool,) = guide.tools
    assert isinstance(tool, FunctionTool)
    tool.on_invoke_tool = lambda *arguments: _raise()
    with pytest.raises(Exception, match="no network"):
        await run(session_of(store), guide)

    trace = await only_trace(store, "s1")
    assert "no network" in str(trace.tool_traces[0].error)
    assert trace.total_tokens == 15


async def _raise() -> None:
    raise OSError("no network")


def test_a_run_without_a_loop_is_recorded(sync_store: SyncMessageStore) -> None:
    session = session_of(sync_store)

    def run_sync() -> None:
        # It takes the thread's event loop, and leaves it open.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        with session.recorder() as hooks:
            Runner.run_sync(agent()[0], "Rain?", session=session, hooks=hooks)
        loop.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(run_sync).result()

    check_recorded_turn(asyncio.run(only_trace(sync_store, "s1")))


async def test_an_async_store_needs_an_async_block(store: MessageStore) -> None:
    with pytest.raises(TypeError, match=r"jazzmine\.sync"), session_of(store).recorder():
        pass


async def test_a_session_outside_of_the_block_is_not_recorded(store: MessageStore) -> None:
    session = session_of(store)
    async with session.recorder():
        await session_of(store, "s2").add_items([*said("1"), {"role": "assistant", "content": "2"}])
    await session.add_items([*said("1"), {"role": "assistant", "content": "2"}])

    for name in ("s1", "s2"):
        assert await store.get_turn_traces_by_conversation_id(name) == []


async def test_an_answer_that_was_deleted_does_not_end_a_run(store: MessageStore) -> None:
    session = session_of(store)

    async def forget() -> None:
        await session.clear_session()

    guide, model = agent()
    async with session.recorder() as hooks:
        await Runner.run(guide, "Rain?", session=session, hooks=hooks)
        await forget()
        await Runner.run(guide, "And now?", session=session, hooks=hooks)

    trace = await only_trace(store, "s1")
    assert len(trace.llm_calls) == len(model.inputs) == 4


async def test_a_call_without_an_answer_is_not_sent_and_still_stored(store: MessageStore) -> None:
    """It may wait for a person's approval, and gets its answer then."""
    session, (guide, model) = session_of(store), agent()
    await session.add_items([*said("Rain?"), CALL])
    assert await session.get_items() == [*said("Rain?"), CALL]

    await Runner.run(guide, "And now?", session=session)

    assert CALL not in model.inputs[0]
    assert CALL not in await session.get_items()
    await session.add_items([OUTPUT])
    await Runner.run(guide, "Still?", session=session)
    sent = [item.get("call_id") for item in model.inputs[-1]]
    assert sent.count(CALL["call_id"]) in (0, 2)


async def test_hooks_that_are_used_again_count_each_run_once(store: MessageStore) -> None:
    session = session_of(store)
    hooks = session.recorder()
    for question in ("Rain?", "And now?"):
        async with hooks:
            await Runner.run(agent()[0], question, session=session, hooks=hooks)

    traces = await store.get_turn_traces_by_conversation_id("s1")
    assert [trace.total_tokens for trace in traces] == [30, 30]


async def test_an_agent_that_waits_for_an_approval_is_one_call_of_the_run_that_ends_it(
    store: MessageStore,
) -> None:
    inner, _ = agent(needs_approval=True)
    tool = inner.as_tool(tool_name="weather", tool_description="Tell the weather.")
    model = ScriptedModel("weather", '{"input":"Rain?"}')
    outer, session = Agent[Any](name="o", model=model, tools=[tool]), session_of(store)
    async with session.recorder() as hooks:
        result = await Runner.run(outer, "Rain?", session=session, hooks=hooks)
    state = result.to_state()
    state.approve(result.interruptions[0])
    await run(session, outer, state)

    traces = await store.get_turn_traces_by_conversation_id("s1")
    calls = [[(tool.call_id, tool.success) for tool in trace.tool_traces] for trace in traces]
    assert calls == [[], [("call-1-1", True)]]


async def test_a_run_that_its_reader_has_left_still_tells_its_tokens(store: MessageStore) -> None:
    session, (guide, _) = session_of(store), agent()
    guide.model = model = WaitingModel()
    async with session.recorder() as hooks:
        streamed = Runner.run_streamed(guide, "Rain?", session=session, hooks=hooks)
        await model.is_asked.wait()
    model.may_answer.set()
    async for _ in streamed.stream_events():
        pass

    assert (await only_trace(store, "s1")).total_tokens == 30


class WaitingModel(ScriptedModel):
    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        self.is_asked.set()
        await self.may_answer.wait()
        return await super().get_response(*args, **kwargs)
