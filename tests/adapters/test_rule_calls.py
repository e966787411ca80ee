"""A call of a tool is recorded once, by the run that made it, and fails only if it failed.

A model is also given outputs of calls that the hooks of a run have not seen: a node made the call
itself, an earlier run or a nested agent did, or it handed over to another agent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from tests.adapters.played import Played
from tests.adapters.test_rule_store_calls import opened
from tests.adapters.test_rule_traces import traces


async def _run_openai(guide: Any, given: Any, session: Any) -> Any:
    from agents import Runner

    async with session.recorder() as hooks:
        return await Runner.run(guide, given, session=session, hooks=hooks)


async def _handed_over(agent: Played) -> None:
    from tests.adapters.scripted_openai_agents import agent as made
    from tests.adapters.scripted_openai_agents import asking, session_of

    colleague = made()[0].clone(name="colleague")
    guide = asking("transfer_to_colleague", handoffs=[colleague])
    await _run_openai(guide, "Rain?", session_of(agent.store))


async def _nested(agent: Played) -> None:
    from tests.adapters.scripted_openai_agents import agent as made
    from tests.adapters.scripted_openai_agents import asking, session_of

    session = session_of(agent.store)
    tool = made()[0].as_tool(tool_name="ask", tool_description="Ask.", session=session)
    await _run_openai(asking("ask", '{"input":"Rain?"}', tools=[tool]), "Rain?", session)


async def _made_by_a_run_that_could_not_save(agent: Played) -> None:
    from agents import RunState

    from tests.adapters.scripted_openai_agents import agent as made
    from tests.adapters.scripted_openai_agents import session_of

    guide, _ = made(needs_approval=True)
    session = session_of(agent.store)
    state = (await _run_openai(guide, "Rain?", session)).to_state()
    state.approve(state.get_interruptions()[0])

    async def fail(items: Any) -> None:
        raise OSError("no network")

    session.add_items = fail
    with suppress(OSError):
        await _run_openai(guide, state, session)
    again = await RunState.from_string(guide, state.to_string())
    await _run_openai(guide, again, session_of(agent.store))


async def _made_by_a_node(agent: Any) -> None:
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import tool
    from langgraph.graph import START, StateGraph
    from langgraph.prebuilt import tools_condition

    from tests.adapters.langgraph_agent import ScriptedModel, State, question, settings

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"rain in {city}"

    def call(state: State) -> Any:
        (asked,) = state["messages"][-1].tool_calls
        answer = weather.invoke(asked["args"])
        return {"messages": [ToolMessage(answer, tool_call_id=asked["id"])]}

    model = ScriptedModel()
    builder = StateGraph(State)
    builder.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_node("tools", call)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    graph = builder.compile(checkpointer=agent.saver)
    recorded = graph.with_config(callbacks=[agent.saver.recorder()])
    await recorded.ainvoke(question("Rain?"), settings())


async def _beside_one_that_asks(agent: Any) -> None:
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from langgraph.graph import START, StateGraph
    from langgraph.prebuilt import ToolNode
    from langgraph.types import Command, interrupt

    from tests.adapters.langgraph_agent import State, question, settings

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"rain in {city}"

    @tool
    def book(city: str) -> str:
        """Book a taxi."""
        return f"{interrupt('May I?')} in {city}"

    calls = [
        {"name": name, "args": {"city": "Lisbon"}, "id": name, "type": "tool_call"}
        for name in ("weather", "book")
    ]
    builder = StateGraph(State)
    builder.add_node("model", lambda state: {"messages": [AIMessage("", tool_calls=calls)]})
    # As agents of the framework do it: each call is a task of its own.
    builder.add_node("tools", ToolNode([weather, book]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", _sends)
    graph = builder.compile(checkpointer=agent.saver)
    recorded = graph.with_config(callbacks=[agent.saver.recorder()])
    await recorded.ainvoke(question("Rain?"), settings())
    await recorded.ainvoke(Command(resume="yes"), settings())


async def _of_a_thread_that_had_no_conversation(agent: Any) -> None:
    from tests.adapters.langgraph_agent import agent as made
    from tests.adapters.langgraph_agent import question

    graph = made(agent.saver)
    await graph.ainvoke(question("Rain?"), {"configurable": {"thread_id": "t1"}})
    await agent.run("And now?")


async def _answered_by_the_client(agent: Any) -> None:
    from langchain_core.messages import ToolMessage

    from tests.adapters.langgraph_agent import agent as made
    from tests.adapters.langgraph_agent import question, settings

    graph = made(agent.saver)
    await graph.ainvoke(question("Rain?"), settings(), interrupt_before=["tools"])
    (call,) = (await graph.aget_state(settings())).values["messages"][-1].tool_calls
    answer = ToolMessage("seen by the user", tool_call_id=call["id"])
    await graph.ainvoke({"messages": [answer]}, settings())


async def _answered_by_the_client_of_pydantic_ai(agent: Any) -> None:
    from pydantic_ai import CallDeferred, DeferredToolRequests
    from pydantic_ai.conversation import Conversation

    from tests.adapters.scripted_pydantic_ai import agent as made

    def defer() -> None:
        raise CallDeferred

    conversations = agent.conversations
    guide = made(
        on_call=defer,
        output_type=[str, DeferredToolRequests],
        capabilities=[conversations.recorder()],
    )
    conversation = Conversation(conversation_id=agent.conversation_id)
    await conversations.save(await guide.run("Rain?", conversation=conversation))
    waiting = await conversations.load(agent.conversation_id)
    (call,) = waiting.deferred_tool_requests.calls
    results = waiting.deferred_tool_requests.build_results(calls={call.tool_call_id: "seen"})
    again = await guide.run(conversation=waiting, deferred_tool_results=results)
    await conversations.save(again)


async def _answered_by_the_client_of_agent_framework(agent: Any) -> None:
    from agent_framework import Agent, AgentSession, Content, FunctionTool, Message

    from tests.adapters.scripted_agent_framework import ScriptedClient

    tool = FunctionTool(name="weather", description="Show.", func=None, input_model={})
    recorder = agent.provider.recorder()
    guide = Agent(
        ScriptedClient(), tools=[tool], context_providers=[agent.provider], middleware=recorder
    )
    asked = await guide.run("Rain?", session=AgentSession(session_id="s1"))
    call_id = asked.messages[0].contents[0].call_id or ""
    answer = Message("tool", [Content.from_function_result(call_id, result="seen")])
    await guide.run(answer, session=AgentSession(session_id="s1"))


async def _answered_by_a_cache(agent: Any) -> None:
    from agent_framework import AgentSession, function_middleware

    from tests.adapters.scripted_agent_framework import agent as made

    @function_middleware
    async def cache(context: Any, call_next: Any) -> None:
        context.result = "known already"

    guide, _ = made(agent.provider, middleware=[cache, *agent.provider.recorder()])
    await guide.run("Rain?", session=AgentSession(session_id="s1"))


def _sends(state: Any) -> Any:
    from langgraph.types import Send

    return [Send("tools", [call]) for call in state["messages"][-1].tool_calls]


async def _interrupted(agent: Any) -> None:
    from strands import tool

    from tests.adapters.scripted_strands import agent as made

    @tool(name="weather", context=True)
    def weather(city: str, tool_context: Any) -> str:
        """Tell the weather.

        Args:
            city: where
        """
        return f"{tool_context.interrupt('May I?')} in {city}"

    again = partial(
        made, agent.repository, tools=[weather], hooks=[agent.repository.recorder("s1")]
    )
    asked = await again()[0].invoke_async("Rain?")
    (request,) = list(asked.interrupts or [])
    answer: Any = {"interruptResponse": {"interruptId": request.id, "response": "yes"}}
    await again()[0].invoke_async([answer])


STORIES: dict[str, tuple[str, Callable[[Any], Awaitable[None]], list[list[str]]]] = {
    "handed over": ("openai_agents", _handed_over, [["transfer_to_colleague"]]),
    "nested": ("openai_agents", _nested, [["ask"]]),
    "not saved": ("openai_agents", _made_by_a_run_that_could_not_save, [[], ["weather"], []]),
    "by a node": ("langgraph", _made_by_a_node, [["weather"]]),
    "beside one that asks": ("langgraph", _beside_one_that_asks, [["weather"], ["book"]]),
    "begun later": ("langgraph", _of_a_thread_that_had_no_conversation, [["weather"]]),
    "by the client": ("langgraph", _answered_by_the_client, [[], ["weather"]]),
    "by the client of Pydantic AI": (
        "pydantic_ai",
        _answered_by_the_client_of_pydantic_ai,
        [[], ["weather"]],
    ),
    "by the client of Agent Framework": (
        "agent_framework",
        _answered_by_the_client_of_agent_framework,
        [[], ["weather"]],
    ),
    "by a cache": ("agent_framework", _answered_by_a_cache, [["weather"]]),
    "interrupted": ("strands", _interrupted, [[], ["weather"]]),
}


@pytest.mark.parametrize("story", STORIES)
async def test_a_call_is_recorded_once_and_succeeds(story: str) -> None:
    name, play, made = STORIES[story]
    with opened(name) as agent:
        await play(agent)

        found = traces(agent)
        assert [[tool.tool_name for tool in trace.tool_traces] for trace in found] == made
        assert all(tool.success for trace in found for tool in trace.tool_traces)
