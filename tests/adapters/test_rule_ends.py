"""Whatever ends a run, or a call in it: one trace, with the tokens that were paid."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, cast

import pytest

from tests.adapters.played import PLAYED, Played
from tests.adapters.test_rule_store_calls import opened
from tests.adapters.test_rule_traces import traces

EACH = pytest.mark.parametrize("name", PLAYED)

# Its transcript is written here, without a stream.
STREAMED = [name for name in PLAYED if name != "claude_agent_sdk"]


async def _left(agent: Played) -> None:
    """Leave the stream of a run once the tool was called."""
    called: list[int] = []
    agent.on_call = lambda: called.append(1)
    stream = agent.stream("Rain?")
    async with aclosing(stream):
        async for _ in stream:
            if called:
                break


async def _cancelled(agent: Played) -> None:
    async def read() -> None:
        async with aclosing(agent.stream("Rain?")) as stream:
            async for _ in stream:
                pass

    task, loop = asyncio.ensure_future(read()), asyncio.get_running_loop()
    agent.on_call = lambda: loop.call_soon_threadsafe(task.cancel)
    with suppress(asyncio.CancelledError):
        await task


async def _late(agent: Played) -> None:
    loop = asyncio.get_running_loop()
    with suppress(TimeoutError):
        async with asyncio.timeout(60) as timer, aclosing(agent.stream("Rain?")) as stream:
            agent.on_call = lambda: loop.call_soon_threadsafe(timer.reschedule, loop.time())
            async for _ in stream:
                pass


ENDS = {"left": _left, "cancelled": _cancelled, "too late": _late}


@pytest.mark.parametrize("cell", [(n, end) for n in STREAMED for end in ENDS], ids=" ".join)
async def test_a_stream_that_ends_early_leaves_one_trace(cell: tuple[str, str]) -> None:
    with opened(cell[0]) as agent:
        await ENDS[cell[1]](agent)
        agent.on_call = lambda: None
        for _ in range(3):  # what a collection frees has to end before the next one
            gc.collect()
            await asyncio.sleep(0.05)

        (trace,) = traces(agent)
        assert trace.total_tokens in (15, 30)
        assert (trace.user_id, trace.agent_id) == ("u1", "a1")
        assert len(trace.tool_traces) == 1


async def test_a_run_of_openai_that_is_cancelled_at_once_leaves_one_trace() -> None:
    with opened("openai_agents") as agent:
        on_stream: Any = agent
        agent.on_call = lambda: on_stream.streamed.cancel(mode="immediate")
        async for _ in agent.stream("Rain?"):
            pass

        (trace,) = traces(agent)
        assert trace.total_tokens in (15, 30)


@EACH
async def test_a_run_that_ends_in_its_model_leaves_one_trace(name: str) -> None:
    def fail() -> None:
        raise OSError("no network")

    with opened(name) as agent:
        agent.on_question = fail
        with suppress(Exception):
            await agent.run("Rain?")

        (trace,) = traces(agent)
        assert ["no network" in str(call.error) for call in trace.llm_calls] == [True]
        assert len(trace.errors) == 1
        agent.on_question = lambda: None
        await agent.run("And now?")
        assert (await agent.history())[-1] == ("said", "It rains.")


@EACH
async def test_a_call_that_is_not_allowed_is_recorded_with_its_reason(name: str) -> None:
    with opened(name) as agent:
        await agent.run_rejected("Rain?")

        (tool,) = (tool for trace in traces(agent) for tool in trace.tool_traces)
        assert (tool.tool_name, tool.success) == ("weather", False)
        assert re.search("reject|not approved", f"{tool.error} {tool.final_data}")
        assert "rain in Lisbon" not in f"{tool.final_data}"


async def _refused_by_openai(agent: Played) -> None:
    from agents import Runner, ToolGuardrailFunctionOutput, tool_input_guardrail

    from tests.adapters.scripted_openai_agents import agent as made
    from tests.adapters.scripted_openai_agents import session_of

    @tool_input_guardrail
    def guard(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("refused by a guardrail")

    session, (guide, _) = session_of(agent.store), made()
    tool: Any = guide.tools[0]
    tool.tool_input_guardrails = [guard]
    async with session.recorder() as hooks:
        await Runner.run(guide, "Rain?", session=session, hooks=hooks)


async def _refused_by_agent_framework(agent: Any) -> None:
    from agent_framework import AgentSession, function_middleware

    from tests.adapters.scripted_agent_framework import agent as made

    @function_middleware
    async def guard(context: Any, call_next: Any) -> None:
        context.result = "refused by a guardrail"

    guide, _ = made(agent.provider, middleware=[*agent.provider.recorder(), guard])
    await guide.run("Rain?", session=AgentSession(session_id="s1"))


async def _refused_by_adk(agent: Any) -> None:
    from tests.adapters.scripted_google_adk import run

    made = await agent.runner()
    made.agent.before_tool_callback = lambda *_, **__: {"error": "refused by a guardrail"}
    await run(made, "Rain?")


REFUSED: dict[str, Callable[[Any], Awaitable[None]]] = {
    "openai_agents": _refused_by_openai,
    "agent_framework": _refused_by_agent_framework,
    "google_adk": _refused_by_adk,
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_call_that_a_guardrail_refuses_is_recorded_with_its_reason(name: str) -> None:
    with opened(name) as agent:
        await REFUSED[name](agent)

        (trace,) = traces(agent)
        assert trace.total_tokens == 30
        (tool,) = trace.tool_traces
        assert "refused by a guardrail" in f"{tool.error} {tool.final_data}"


async def test_a_model_of_adk_that_a_callback_answers_for_is_not_called() -> None:
    with opened("google_adk") as agent:
        from google.adk.models.llm_response import LlmResponse
        from google.genai import types

        from tests.adapters.scripted_google_adk import run

        made = await cast(Any, agent).runner()
        content = types.Content(role="model", parts=[types.Part(text="Not that.")])
        made.agent.before_model_callback = lambda *_, **__: LlmResponse(content=content)
        await run(made, "Rain?")

        assert await agent.history() == [("said", "Rain?"), ("said", "Not that.")]
        (trace,) = traces(agent)
        assert (trace.llm_calls, trace.errors) == ([], [])
