"""An agent of Strands Agents with a scripted model, and its states and messages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable
from typing import Any

from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent, HookProvider
from strands.models.model import Model
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.session import SessionAgent, SessionMessage

from jazzmine.adapters.strands import JazzmineSessionRepository
from tests.adapters.played_base import Played


class ScriptedModel(Model):
    """Calls the tool `weather` for each new input, and then answers; keeps what it was sent."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.on_question: Callable[[], object] = lambda: None

    def update_config(self, **model_config: Any) -> None:
        raise AssertionError("an agent does not configure its model")

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        raise AssertionError("no agent of these tests asks for structured output")

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterable[Any]:
        self.on_question()
        self.inputs.append([dict(message) for message in messages])
        answered = any("toolResult" in block for block in messages[-1]["content"])
        yield {"messageStart": {"role": "assistant"}}
        if answered:
            yield {"contentBlockDelta": {"delta": {"text": "It rains."}}}
        else:
            call = {"toolUseId": f"call-{len(messages)}", "name": "weather"}
            yield {"contentBlockStart": {"start": {"toolUse": call}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"city":"Lisbon"}'}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if answered else "tool_use"}}
        counts = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
        usage = {**counts, "cacheReadInputTokens": 4}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


@tool
def weather(city: str) -> str:
    """Tell the weather.

    Args:
        city: where
    """
    return f"rain in {city}"


def agent(
    repository: JazzmineSessionRepository, session_id: str = "s1", **more: Any
) -> tuple[Agent, ScriptedModel]:
    """Return an agent with one tool whose session is in a repository, and its model."""
    model = ScriptedModel()
    manager = RepositorySessionManager(session_id, repository)
    made = Agent(
        model=model,
        agent_id="guide",
        callback_handler=None,
        **{"session_manager": manager, "tools": [weather], **more},
    )
    return made, model


def state(agent_id: str = "guide", **values: Any) -> SessionAgent:
    return SessionAgent(agent_id=agent_id, state=values, conversation_manager_state={"n": 1})


def said(text: str, index: int) -> SessionMessage:
    return SessionMessage.from_message({"role": "user", "content": [{"text": text}]}, index)


def ids(messages: list[SessionMessage]) -> list[int]:
    return [message.message_id for message in messages]


class Strands(Played):
    conversation_id = "s1/guide"
    adding: Any = None

    def prepare(self) -> None:
        self.repository = JazzmineSessionRepository(self.store, user_id="u1", agent_id="a1")

    def _agent(self, conversation_id: str | None = None, *hooks: Any) -> Any:
        @tool(name="weather")
        def weather(city: str) -> str:
            """Tell the weather.

            Args:
                city: where
            """
            self.on_call()
            return f"rain in {city}"

        recorder = self.repository.recorder("s1")
        session_id = (conversation_id or self.conversation_id).partition("/")[0]
        made, model = agent(self.repository, session_id, tools=[weather], hooks=[recorder, *hooks])
        model.on_question = lambda: self.on_question()
        return made

    async def run(self, text: str) -> None:
        await self._agent().invoke_async(text)

    async def stream(self, text: str) -> AsyncGenerator[Any]:
        async for event in self._agent().stream_async(text):
            yield event

    async def add(self, texts: list[str]) -> None:
        self.adding = self.adding or self._agent()
        for text in texts:
            message = {"role": "user", "content": [{"text": text}]}
            self.adding._session_manager.append_message(message, self.adding)

    async def run_rejected(self, text: str) -> None:
        class Guard(HookProvider):
            def register_hooks(self, registry: Any, **kwargs: Any) -> None:
                registry.add_callback(BeforeToolCallEvent, self.reject)

            def reject(self, event: BeforeToolCallEvent) -> None:
                event.cancel_tool = "rejected"

        await self._agent(None, Guard()).invoke_async(text)

    async def history(self, conversation_id: str | None = None) -> list[tuple[str, Any]]:
        return [
            ("call", block["toolUse"]["toolUseId"])
            if "toolUse" in block
            else ("answer", block["toolResult"]["toolUseId"])
            if "toolResult" in block
            else ("said", block["text"])
            for message in self._agent(conversation_id).messages
            for block in message["content"]
        ]
