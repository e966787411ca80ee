"""An agent of Agent Framework with a scripted model, and a program of one process with it.

Run as `python -m tests.adapters.agent_framework_program CONFIG COMMAND`, with the configuration of
a message store as JSON, and one of these commands:

- `turn INPUT`: one turn of the agent, with a tool call; prints what the model was sent, as JSON.
- `killed INPUT`: the same, with the history stored after each call of the model, and killed in the
  middle of the tool.
- `add NAME COUNT`: adds two messages at a time.
- `transcript COUNT`: saves transcripts of 2, 4, ... messages, each to a session of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    HistoryProvider,
    Message,
    ResponseStream,
    UsageDetails,
    tool,
)

from jazzmine.adapters.agent_framework import JazzmineHistoryProvider
from jazzmine.sync import MessageStore


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Calls tools for each new input, and then answers; keeps what it was sent."""

    def __init__(self, tools: Sequence[str] = ("weather",)) -> None:
        super().__init__()
        self._tools = tools
        self.inputs: list[list[Message]] = []
        self.on_question: Callable[[], object] = lambda: None

    def _inner_get_response(self, *, messages: Any, **kwargs: Any) -> Any:
        self.on_question()
        self.inputs.append(list(messages))
        return self._stream(messages) if kwargs.get("stream") else self._reply(messages)

    def _stream(self, messages: Any) -> Any:
        async def updates() -> AsyncIterator[ChatResponseUpdate]:
            response = await self._reply(messages)
            (message,) = response.messages
            usage = Content.from_usage(USAGE)
            yield ChatResponseUpdate(contents=message.contents, role="assistant")
            yield ChatResponseUpdate(contents=[usage], role="assistant")

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates)

    async def _reply(self, messages: Any) -> ChatResponse:
        calls = [
            Content.from_function_call(call_id, name, arguments='{"city":"Lisbon"}')
            for name, call_id in zip(self._tools, (f"call-{len(messages)}", "other"), strict=False)
        ]
        contents = [Content.from_text("It rains.")] if messages[-1].role == "tool" else calls
        return ChatResponse(messages=[Message("assistant", contents)], usage_details=USAGE)


USAGE: Any = UsageDetails(input_token_count=10, output_token_count=5, total_token_count=15)
USAGE["cache_read_input_token_count"] = 4


def agent(
    *providers: HistoryProvider,
    on_call: Callable[[], object] = lambda: None,
    asks: bool = False,
    **more: Any,
) -> tuple[Agent, ScriptedClient]:
    """Return an agent with one tool, which does something when it is called, and its model."""

    def weather(city: str) -> str:
        """Tell the weather."""
        on_call()
        return f"rain in {city}"

    client = ScriptedClient()
    tools: list[Any] = [tool(approval_mode="always_require")(weather) if asks else weather]
    made = Agent(client, name="guide", tools=tools, context_providers=providers, **more)
    return made, client


def main() -> None:
    config, command, *arguments = sys.argv[1:]
    with MessageStore.initialize(json.loads(config)) as store:
        provider = JazzmineHistoryProvider(store, user_id="u1", agent_id="a1")
        commands: dict[str, Callable[..., Coroutine[Any, Any, None]]]
        commands = {"turn": _turn, "killed": _killed, "add": _add, "transcript": _transcript}
        asyncio.run(commands[command](provider, *arguments))


async def _turn(provider: JazzmineHistoryProvider, question: str) -> None:
    guide, client = agent(provider)
    response = await guide.run(question, session=AgentSession(session_id="s1"))
    assert response.text == "It rains."
    print(json.dumps([message.to_dict() for message in client.inputs[-1]]))


async def _killed(provider: JazzmineHistoryProvider, question: str) -> None:
    guide, _ = agent(
        provider,
        on_call=lambda: os._exit(0),
        middleware=provider.recorder(),
        require_per_service_call_history_persistence=True,
    )
    await guide.run(question, session=AgentSession(session_id="s1"))


async def _add(provider: JazzmineHistoryProvider, name: str, count: str) -> None:
    for number in range(int(count)):
        pair = [Message("user", [f"{name} {number} {half}"]) for half in (0, 1)]
        await provider.save_messages("s1", pair)


async def _transcript(provider: JazzmineHistoryProvider, count: str) -> None:
    for size in range(2, int(count) + 1, 2):
        messages = [Message("user", [f"{number}"]) for number in range(size)]
        await provider.save_messages(f"s{size}", messages)


if __name__ == "__main__":
    main()
