"""The scripted agents of OpenAI Agents, Agent Framework, Pydantic AI and Strands."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from jazzmine.adapters._items import text_of
from tests.adapters.played_base import Played

__all__ = ["AgentFramework", "OpenAIAgents", "PydanticAI", "Strands"]


class OpenAIAgents(Played):
    def prepare(self) -> None:
        """Make nothing: each run has a session and an agent of its own."""

    async def run(self, text: str) -> None:
        from agents import Runner

        from tests.adapters.scripted_openai_agents import agent, session_of

        session, (guide, model) = session_of(self.store), agent(lambda: self.on_call())
        model.on_question = lambda: self.on_question()
        async with session.recorder() as hooks:
            await Runner.run(guide, text, session=session, hooks=hooks)

    async def stream(self, text: str) -> AsyncGenerator[Any]:
        from agents import Runner

        from tests.adapters.scripted_openai_agents import agent, session_of

        session, (guide, _) = session_of(self.store), agent(lambda: self.on_call())
        async with session.recorder() as hooks:
            self.streamed = Runner.run_streamed(guide, text, session=session, hooks=hooks)
            async for event in self.streamed.stream_events():
                yield event

    async def add(self, texts: list[str]) -> None:
        from tests.adapters.scripted_openai_agents import said, session_of

        await session_of(self.store).add_items(said(*texts))

    async def run_rejected(self, text: str) -> None:
        from agents import Runner

        from tests.adapters.scripted_openai_agents import agent, session_of

        session, (guide, _) = session_of(self.store), agent(needs_approval=True)
        async with session.recorder() as hooks:
            result = await Runner.run(guide, text, session=session, hooks=hooks)
        state = result.to_state()
        state.reject(result.interruptions[0])
        async with session.recorder() as hooks:
            await Runner.run(guide, state, session=session, hooks=hooks)

    async def history(self, conversation_id: str | None = None) -> list[tuple[str, Any]]:
        from tests.adapters.scripted_openai_agents import session_of

        kinds = {"function_call": "call", "function_call_output": "answer"}
        items = await session_of(self.store, conversation_id or self.conversation_id).get_items()
        return [
            (kinds.get(item.get("type"), "said"), item.get("call_id") or text_of(item["content"]))
            for item in items
        ]


class AgentFramework(Played):
    conversation_id = "s1/jazzmine"

    def prepare(self) -> None:
        from jazzmine.adapters.agent_framework import JazzmineHistoryProvider

        self.provider = JazzmineHistoryProvider(self.store, user_id="u1", agent_id="a1")

    async def run(self, text: str) -> None:
        from agent_framework import AgentSession

        from tests.adapters.scripted_agent_framework import agent

        guide, self.client = agent(
            self.provider, on_call=lambda: self.on_call(), middleware=self.provider.recorder()
        )
        self.client.on_question = lambda: self.on_question()
        await guide.run(text, session=AgentSession(session_id="s1"))

    async def stream(self, text: str) -> AsyncGenerator[Any]:
        from agent_framework import AgentSession

        from tests.adapters.scripted_agent_framework import agent

        guide, _ = agent(
            self.provider, on_call=lambda: self.on_call(), middleware=self.provider.recorder()
        )
        async for update in guide.run(text, session=AgentSession(session_id="s1"), stream=True):
            yield update

    async def add(self, texts: list[str]) -> None:
        from agent_framework import Message

        await self.provider.save_messages("s1", [Message("user", [text]) for text in texts])

    async def run_rejected(self, text: str) -> None:
        from agent_framework import AgentSession, Message

        from tests.adapters.scripted_agent_framework import agent

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


class PydanticAI(Played):
    conversation_id = "c1"

    def prepare(self) -> None:
        from jazzmine.adapters.pydantic_ai import JazzmineConversationStore

        self.conversations = JazzmineConversationStore(self.store, agent_id="a1", user_id="u1")

    async def run(self, text: str) -> None:
        from pydantic_ai.conversation import Conversation

        name = self.conversation_id
        conversation = await self.conversations.load(name) or Conversation(conversation_id=name)
        guide = self._agent()
        await self.conversations.save(await guide.run(text, conversation=conversation))

    def _agent(self, **more: Any) -> Any:
        from tests.adapters.scripted_pydantic_ai import agent

        return agent(
            lambda: self.on_question(),
            lambda: self.on_call(),
            capabilities=[self.conversations.recorder()],
            **more,
        )

    async def stream(self, text: str) -> AsyncGenerator[Any]:
        from pydantic_ai.conversation import Conversation

        conversation = Conversation(conversation_id=self.conversation_id)
        async with self._agent().iter(text, conversation=conversation) as run:
            async for node in run:
                yield node

    async def add(self, texts: list[str]) -> None:
        from pydantic_ai.conversation import Conversation
        from pydantic_ai.conversation_store import ConversationConflict

        from tests.adapters.scripted_pydantic_ai import asked

        while True:
            # With the whole history, each of many conflicts would cost more than the one before.
            found = await self.conversations.load("c1", limit=1)
            conversation = found or Conversation(conversation_id="c1")
            conversation.messages += map(asked, texts)
            with suppress(ConversationConflict):
                await self.conversations.save(conversation)
                return

    async def run_rejected(self, text: str) -> None:
        from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolDenied
        from pydantic_ai.conversation import Conversation

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


class Strands(Played):
    conversation_id = "s1/guide"
    adding: Any = None

    def prepare(self) -> None:
        from jazzmine.adapters.strands import JazzmineSessionRepository

        self.repository = JazzmineSessionRepository(self.store, user_id="u1", agent_id="a1")

    def _agent(self, conversation_id: str | None = None, *hooks: Any) -> Any:
        from strands import tool

        from tests.adapters.scripted_strands import agent

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
        from strands.hooks import BeforeToolCallEvent, HookProvider

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
