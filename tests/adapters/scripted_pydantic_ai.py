"""An agent of Pydantic AI with a scripted model, and its messages and conversations."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool, ToolDenied
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from jazzmine.adapters.pydantic_ai import JazzmineConversationStore
from tests.adapters.played_base import Played


def agent(
    on_question: Callable[[], object] = lambda: None,
    on_call: Callable[[], object] = lambda: None,
    asks: bool = False,
    **more: Any,
) -> Agent[None, str]:
    """Return an agent whose model calls a tool for each new input, and then answers.

    Args:
        on_question: called when the model is asked.
        on_call: called when the tool is called.
        asks: whether a person has to approve the call.
        more: other arguments of the agent.
    """

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        on_question()
        usage = RequestUsage(input_tokens=10, output_tokens=5, cache_read_tokens=4)
        if isinstance(messages[-1].parts[-1], ToolReturnPart | RetryPromptPart):
            return ModelResponse(parts=[TextPart("It rains.")], usage=usage)
        return ModelResponse(parts=[ToolCallPart("weather", {"city": "Lisbon"})], usage=usage)

    def weather(city: str) -> str:
        """Tell the weather."""
        on_call()
        return f"rain in {city}"

    return Agent(FunctionModel(reply), tools=[Tool(weather, requires_approval=asks)], **more)


def asked(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def answered(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def talk(name: str, *texts: str) -> Conversation:
    messages = [(answered if index % 2 else asked)(text) for index, text in enumerate(texts)]
    return Conversation(conversation_id=name, messages=list(messages))


def texts(messages: list[ModelMessage]) -> list[object]:
    return [getattr(message.parts[0], "content", None) for message in messages]


async def loaded(conversations: ConversationStore, name: str) -> list[object]:
    conversation = await conversations.load(name)
    assert conversation is not None
    return texts(conversation.messages)


class PydanticAI(Played):
    conversation_id = "c1"
    is_exact = True

    def prepare(self) -> None:
        self.conversations = JazzmineConversationStore(self.store, agent_id="a1", user_id="u1")

    async def run(self, text: str) -> None:
        name = self.conversation_id
        conversation = await self.conversations.load(name) or Conversation(conversation_id=name)
        guide = self._agent()
        await self.conversations.save(await guide.run(text, conversation=conversation))

    def _agent(self, **more: Any) -> Any:
        return agent(
            lambda: self.on_question(),
            lambda: self.on_call(),
            capabilities=[self.conversations.recorder()],
            **more,
        )

    async def stream(self, text: str) -> AsyncGenerator[Any]:
        conversation = Conversation(conversation_id=self.conversation_id)
        async with self._agent().iter(text, conversation=conversation) as run:
            async for node in run:
                yield node

    async def add(self, texts: list[str]) -> None:
        while True:
            # With the whole history, each of many conflicts would cost more than the one before.
            found = await self.conversations.load("c1", limit=1)
            conversation = found or Conversation(conversation_id="c1")
            conversation.messages += map(asked, texts)
            with suppress(ConversationConflict):
                await self.conversations.save(conversation)
                return

    async def run_rejected(self, text: str) -> None:
        guide = self._agent(asks=True, output_type=[str, DeferredToolRequests])
        conversation = Conversation(conversation_id=self.conversation_id)
        result = await guide.run(text, conversation=conversation)
        await self.conversations.save(result)
        (call,) = result.output.approvals
        results = DeferredToolResults(approvals={call.tool_call_id: ToolDenied("rejected")})
        loaded = await self.conversations.load(self.conversation_id)
        again = await guide.run(conversation=loaded, deferred_tool_results=results)
        await self.conversations.save(again)

    async def history(self, conversation_id: str | None = None) -> list[tuple[str, Any]]:
        kinds = {"tool-call": "call", "tool-return": "answer"}
        found: Any = await self.conversations.load(conversation_id or self.conversation_id)
        return [
            (kinds[part.part_kind], getattr(part, "tool_call_id", ""))
            if part.part_kind in kinds
            else ("said", str(part.content))
            for message in (found.messages if found else [])
            for part in message.parts
        ]
