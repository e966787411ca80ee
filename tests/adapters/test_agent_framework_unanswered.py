"""Calls of tools without a result, as a killed process or a pending approval leaves them."""

from __future__ import annotations

from typing import Any

import pytest
from agent_framework import Agent, AgentSession, Content, FunctionTool, Message, tool

from jazzmine.adapters.agent_framework import JazzmineHistoryProvider
from jazzmine.core import MessageStore
from tests.adapters.scripted_agent_framework import ScriptedClient


@pytest.fixture
def provider(store: MessageStore) -> JazzmineHistoryProvider:
    return JazzmineHistoryProvider(store, user_id="u1", agent_id="a1")


def kinds(messages: list[Message]) -> list[str]:
    return [content.type for message in messages for content in message.contents]


@pytest.mark.parametrize("per_call", [False, True])
async def test_a_call_that_waits_for_approval_is_kept_until_it_is_answered(
    provider: JazzmineHistoryProvider, *, per_call: bool
) -> None:
    @tool(name="weather", approval_mode="always_require")
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"rain in {city}"

    client = ScriptedClient()
    more: Any = {"require_per_service_call_history_persistence": per_call}
    guide = Agent(client, tools=[weather], context_providers=[provider], **more)
    session = AgentSession(session_id="s1")
    (request,) = (await guide.run("Rain?", session=session)).user_input_requests

    answer = Message("user", [request.to_function_approval_response(True)])
    response = await guide.run(answer, session=session)

    assert response.text == "It rains."
    assert kinds(client.inputs[-1])[-2:] == ["function_call", "function_result"]


async def test_a_call_beside_one_that_the_client_answers_is_sent_with_its_result(
    provider: JazzmineHistoryProvider,
) -> None:
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"rain in {city}"

    shown = FunctionTool(name="show", description="Show.", func=None, input_model={})
    client = ScriptedClient(["show", "weather"])
    guide = Agent(client, tools=[weather, shown], context_providers=[provider])
    waiting = AgentSession(session_id="s1")
    (call, *_), *_ = (
        message.contents for message in (await guide.run("Rain?", session=waiting)).messages
    )
    answer = Message("tool", [Content.from_function_result(call.call_id or "", result="seen")])

    await guide.run(answer, session=AgentSession.from_dict(waiting.to_dict()))
    assert kinds(client.inputs[-1]) == ["text", *["function_call"] * 2, *["function_result"] * 2]
    # Without the session's state the framework does not make the other call.
    await provider.save_messages("s2", (await provider.get_messages("s1"))[:2])
    await guide.run(answer, session=AgentSession(session_id="s2"))
    assert kinds(client.inputs[-1]) == ["text", "function_call", "function_result"]


async def test_what_is_not_answered_is_left_out_and_stays_stored(
    provider: JazzmineHistoryProvider,
) -> None:
    def call(number: int) -> Content:
        return Content.from_function_call(f"c{number}", "weather", arguments="{}")

    reasoning = Content.from_text_reasoning(text="I look it up.")
    stored = [
        Message("user", ["Rain?"]),
        Message("assistant", [reasoning, call(1), call(2)]),
        Message("tool", [Content.from_function_result("c1", result="rain")]),
        Message("assistant", [reasoning, call(3)]),
        Message("assistant", [Content.from_text("One moment."), reasoning, call(4)]),
    ]
    await provider.save_messages("s1", stored)

    client = ScriptedClient()
    guide = Agent(client, context_providers=[provider])
    late = Message("tool", [Content.from_function_result("c4", result="rain")])
    await guide.run([late], session=AgentSession(session_id="s1"))

    assert kinds(client.inputs[0]) == [
        *("text", "text_reasoning", "function_call", "function_result"),
        *("text", "text_reasoning", "function_call", "function_result"),
    ]
    assert kinds((await provider.get_messages("s1"))[:5]) == kinds(stored)
