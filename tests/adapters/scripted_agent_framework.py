"""An agent of Agent Framework with a scripted model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
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
from tests.adapters.played_base import Played


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


class AgentFramework(Played):
    conversation_id = "s1/jazzmine"
    is_exact = True

    def prepare(self) -> None:
        self.provider = JazzmineHistoryProvider(self.store, user_id="u1", agent_id="a1")

    async def run(self, text: str) -> None:
        guide, self.client = agent(
            self.provider, on_call=lambda: self.on_call(), middleware=self.provider.recorder()
        )
        self.client.on_question = lambda: self.on_question()
        await guide.run(text, session=AgentSession(session_id="s1"))

    async def stream(self, text: str) -> AsyncGenerator[Any]:
        guide, _ = agent(
            self.provider, on_call=lambda: self.on_call(), middleware=self.provider.recorder()
        )
        async for update in guide.run(text, session=AgentSession(session_id="s1"), stream=True):
            yield update

    async def add(self, texts: list[str]) -> None:
        await self.provider.save_messages("s1", [Message("user", [text]) for text in texts])

    async def run_rejected(self, text: str) -> None:
        guide, _ = agent(self.provider, middleware=self.provider.recorder(), asks=True)
        session = AgentSession(session_id="s1")
        (request,) = (await guide.run(text, session=session)).user_input_requests
        answer = Message("user", [request.to_function_approval_response(False)])
        await guide.run(answer, session=session)

    async def history(self, conversation_id: str | None = None) -> list[tuple[str, Any]]:
        name = (conversation_id or self.conversation_id).partition("/")[0]
        kinds = {"function_call": "call", "function_result": "answer"}
        return [
            (kinds.get(content.type, "said"), content.call_id or content.text)
            for message in await self.provider.get_messages(name)
            for content in message.contents
        ]
