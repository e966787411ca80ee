"""One scripted agent in each framework, for what holds for all adapters.

Each is asked a question, calls the tool `weather`, which gets its answer, and answers: two calls of
a model with 15 tokens each (12 of Claude's, whose transcript is written here).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from typing import Any

from jazzmine.adapters._items import text_of
from jazzmine.sync import MessageStore
from jazzmine.sync.long_term_memory import LongTermMemoryStore

__all__ = ["PLAYED", "Played", "played"]


class Played(ABC):
    """An agent with a session, whose runs are recorded.

    Args:
        store: an open message store.
        items: an open long-term memory.

    Attributes:
        conversation_id: the conversation of the session.
        on_call: called when the tool is called.
        on_question: called when the model is called.
    """

    conversation_id = "s1"
    #: Whether the framework loads what the store's conversation holds.
    loads_conversation = True

    def __init__(self, store: MessageStore, items: LongTermMemoryStore) -> None:
        self.store, self.items = store, items
        self.on_call: Callable[[], object] = lambda: None
        self.on_question: Callable[[], object] = lambda: None
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Make what is made once."""

    @abstractmethod
    async def run(self, text: str) -> None:
        """Run one turn, which a new process might begin."""

    def stream(self, text: str) -> AsyncGenerator[Any]:
        """Run one turn as a stream, which not every framework has."""
        raise AssertionError(f"{type(self).__name__} has no stream")

    @abstractmethod
    async def run_rejected(self, text: str) -> None:
        """Run a turn whose call is not allowed, for "rejected" as the reason if there is one."""

    @abstractmethod
    async def history(self, conversation_id: str | None = None) -> list[tuple[str, Any]]:
        """Return what the framework loads: ("call" or "answer", its id), or ("said", its text)."""


class OpenAIAgents(Played):
    def prepare(self) -> None:
        """Make nothing: each run has a session and an agent of its own."""

    async def run(self, text: str) -> None:
        from agents import Runner

        from tests.adapters.openai_agents_program import agent
        from tests.adapters.openai_agents_sessions import session_of

        session, (guide, model) = session_of(self.store), agent(lambda: self.on_call())
        model.on_question = lambda: self.on_question()
        async with session.recorder() as hooks:
            await Runner.run(guide, text, session=session, hooks=hooks)

    async def stream(self, text: str) -> AsyncGenerator[Any]:
        from agents import Runner

        from tests.adapters.openai_agents_program import agent
        from tests.adapters.openai_agents_sessions import session_of

        session, (guide, _) = session_of(self.store), agent(lambda: self.on_call())
        async with session.recorder() as hooks:
            self.streamed = Runner.run_streamed(guide, text, session=session, hooks=hooks)
            async for event in self.streamed.stream_events():
                yield event

    async def run_rejected(self, text: str) -> None:
        from agents import Runner

        from tests.adapters.openai_agents_program import agent
        from tests.adapters.openai_agents_sessions import session_of

        session, (guide, _) = session_of(self.store), agent(needs_approval=True)
        async with session.recorder() as hooks:
            result = await Runner.run(guide, text, session=session, hooks=hooks)
        state = result.to_state()
        state.reject(result.interruptions[0])
        async with session.recorder() as hooks:
            await Runner.run(guide, state, session=session, hooks=hooks)

    async def history(self, conversation_id: str | None = None) -> list[tuple[str, Any]]:
        from tests.adapters.openai_agents_sessions import session_of

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

        from tests.adapters.agent_framework_program import agent

        guide, self.client = agent(
            self.provider, on_call=lambda: self.on_call(), middleware=self.provider.recorder()
        )
        self.client.on_question = lambda: self.on_question()
        await guide.run(text, session=AgentSession(session_id="s1"))

    async def stream(self, text: str) -> AsyncGenerator[Any]:
        from agent_framework import AgentSession

        from tests.adapters.agent_framework_program import agent

        guide, _ = agent(
            self.provider, on_call=lambda: self.on_call(), middleware=self.provider.recorder()
        )
        async for update in guide.run(text, session=AgentSession(session_id="s1"), stream=True):
            yield update

    async def run_rejected(self, text: str) -> None:
        from agent_framework import AgentSession, Message

        from tests.adapters.agent_framework_program import agent

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
        from tests.adapters.pydantic_ai_program import agent

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

    def prepare(self) -> None:
        from jazzmine.adapters.strands import JazzmineSessionRepository

        self.repository = JazzmineSessionRepository(self.store, user_id="u1", agent_id="a1")

    def _agent(self, conversation_id: str | None = None, *hooks: Any) -> Any:
        from strands import tool

        from tests.adapters.strands_program import agent

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


class GoogleADK(Played):
    conversation_id = "a1/u1/s1"

    def prepare(self) -> None:
        from jazzmine.adapters.google_adk import JazzmineSessionService

        self.service = JazzmineSessionService(self.store, self.items)

    async def run(self, text: str) -> None:
        from tests.adapters.google_adk_program import run

        await run(await self.runner(), text)

    async def runner(self, **more: Any) -> Any:
        from google.adk.tools.function_tool import FunctionTool

        from tests.adapters.google_adk_program import PLACE, ScriptedModel, runner

        def weather(city: str) -> str:
            """Return the weather of a city."""
            self.on_call()
            return f"rain in {city}"

        if await self.service.get_session(**PLACE) is None:
            await self.service.create_session(**PLACE)
        model = ScriptedModel(on_question=lambda: self.on_question())
        return runner(self.service, model, FunctionTool(weather, **more))

    async def stream(self, text: str) -> AsyncGenerator[Any]:
        from google.genai import types

        question = types.Content(role="user", parts=[types.Part(text=text)])
        made = await self.runner()
        async for event in made.run_async(user_id="u1", session_id="s1", new_message=question):
            yield event

    async def run_rejected(self, text: str) -> None:
        from google.genai import types

        from tests.adapters.google_adk_program import run

        made = await self.runner(require_confirmation=True)
        events = await run(made, text)
        (request,) = (
            call
            for event in events
            for call in event.get_function_calls()
            if call.name == "adk_request_confirmation"
        )
        part: Any = types.Part.from_function_response(
            name=request.name or "", response={"confirmed": False}
        )
        part.function_response.id = request.id
        await run(made, part)

    async def history(self, conversation_id: str | None = None) -> list[tuple[str, Any]]:
        session_id = (conversation_id or self.conversation_id).rpartition("/")[2]
        session = await self.service.get_session(app_name="a1", user_id="u1", session_id=session_id)
        return [
            ("call", part.function_call.id)
            if part.function_call
            else ("answer", part.function_response.id)
            if part.function_response
            else ("said", part.text)
            for event in (session.events if session else [])
            for part in (event.content.parts if event.content else None) or []
        ]


class LangGraph(Played):
    conversation_id = "t1"
    loads_conversation = False

    def prepare(self) -> None:
        from jazzmine.adapters.langgraph import JazzmineSaver

        self.saver = JazzmineSaver(self.items, messages=self.store, agent_id="a1")

    def _graph(self) -> Any:
        from tests.adapters.langgraph_agent import agent

        return agent(self.saver, lambda: self.on_call(), lambda: self.on_question())

    async def run(self, text: str) -> None:
        from tests.adapters.langgraph_agent import question, settings

        await asyncio.to_thread(self._graph().invoke, question(text), settings(), durability="sync")

    async def stream(self, text: str) -> AsyncGenerator[Any]:
        from tests.adapters.langgraph_agent import question, settings

        async for state in self._graph().astream(question(text), settings(), durability="sync"):
            yield state

    async def run_rejected(self, text: str) -> None:
        from langchain_core.messages import ToolMessage

        from tests.adapters.langgraph_agent import question, settings

        graph = self._graph()
        await graph.ainvoke(question(text), settings(), interrupt_before=["tools"])
        (call,) = (await graph.aget_state(settings())).values["messages"][-1].tool_calls
        said = ToolMessage("rejected", tool_call_id=call["id"], name="weather", status="error")
        await graph.ainvoke({"messages": [said]}, settings())

    async def history(self, conversation_id: str | None = None) -> list[tuple[str, Any]]:
        from tests.adapters.langgraph_agent import settings

        state = await asyncio.to_thread(self._graph().get_state, settings())
        found: list[tuple[str, Any]] = []
        for message in state.values.get("messages", []):
            if message.type == "tool":
                found.append(("answer", message.tool_call_id))
            else:
                found += [("call", call["id"]) for call in getattr(message, "tool_calls", [])]
                found += [("said", message.content)] if message.content else []
        return found


class ClaudeAgentSDK(Played):
    conversation_id = "claude_agent_sdk/u1/project/session"
    number = 0

    def prepare(self) -> None:
        from jazzmine.adapters.claude_agent_sdk import JazzmineSessionStore

        self.sessions: Any = JazzmineSessionStore(
            self.store, user_id="u1", agent_id="a1", record_runs=True
        )

    async def run(self, text: str) -> None:
        await self._turn(text, {"content": "rain in Lisbon"})

    async def run_rejected(self, text: str) -> None:
        await self._turn(text, {"content": "The user has rejected it.", "is_error": True})

    async def _turn(self, text: str, answer: dict[str, Any]) -> None:
        self.number += 1
        name = f"{self.number}"
        usage = {"input_tokens": 10, "output_tokens": 5}

        def entry(part: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
            return {
                "type": kind,
                "uuid": f"e{name}{part}",
                "timestamp": f"2026-11-23T20:{self.number:02d}:{part:02d}.000Z",
                "message": {"role": kind, "content": content, **more},
            }

        call = {
            "type": "tool_use",
            "id": f"t{name}",
            "name": "weather",
            "input": {"city": "Lisbon"},
        }
        result = {"type": "tool_result", "tool_use_id": f"t{name}", **answer}
        said = {"type": "text", "text": "It rains."}
        of_model = {"model": "claude", "usage": usage}
        entries = [
            entry(0, "user", text),
            entry(1, "assistant", [call], id=f"m{name}1", **of_model),
            entry(2, "user", [result]),
            entry(3, "assistant", [said], id=f"m{name}3", **of_model),
        ]
        key = {"project_key": "project", "session_id": "session"}
        try:
            self.on_question()
        except OSError as error:
            failed = entry(1, "assistant", str(error), id=f"m{name}1", **of_model)
            entries[1:] = [{**failed, "isApiErrorMessage": True}]
        await self.sessions.append(key, entries[:2])
        if entries[2:]:
            self.on_call()
        await self.sessions.append(key, entries[2:])

    async def history(self, conversation_id: str | None = None) -> list[tuple[str, Any]]:
        name = (conversation_id or self.conversation_id).rpartition("/")[2]
        entries: Any = await self.sessions.load({"project_key": "project", "session_id": name})
        found: list[tuple[str, Any]] = []
        for entry in entries or []:
            content = entry["message"]["content"]
            for block in content if isinstance(content, list) else [{"text": content}]:
                kind = {"tool_use": "call", "tool_result": "answer"}.get(
                    str(block.get("type")), "said"
                )
                found.append(
                    (kind, block.get("id") or block.get("tool_use_id") or block.get("text"))
                )
        return found


PLAYED: dict[str, type[Played]] = {
    "openai_agents": OpenAIAgents,
    "claude_agent_sdk": ClaudeAgentSDK,
    "pydantic_ai": PydanticAI,
    "strands": Strands,
    "agent_framework": AgentFramework,
    "google_adk": GoogleADK,
    "langgraph": LangGraph,
}


def played(name: str, store: MessageStore, items: LongTermMemoryStore) -> Played:
    """Return the agent of a framework."""
    return PLAYED[name](store, items)
