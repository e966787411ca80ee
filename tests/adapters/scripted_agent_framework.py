"""An agent of Agent Framework with a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from agent_framework import (
    Agent,
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
