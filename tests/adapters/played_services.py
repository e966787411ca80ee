"""The scripted agents of Google ADK, LangGraph and Claude's SDK, which stores transcripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from tests.adapters.played_base import Played

__all__ = ["ClaudeAgentSDK", "GoogleADK", "LangGraph"]


class GoogleADK(Played):
    conversation_id = "a1/u1/s1"

    def prepare(self) -> None:
        from jazzmine.adapters.google_adk import JazzmineSessionService

        self.service = JazzmineSessionService(self.store, self.items)

    async def run(self, text: str) -> None:
        from tests.adapters.scripted_google_adk import run

        await run(await self.runner(), text)

    async def runner(self, **more: Any) -> Any:
        from google.adk.tools.function_tool import FunctionTool

        from tests.adapters.scripted_google_adk import PLACE, ScriptedModel, runner

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

    async def add(self, texts: list[str]) -> None:
        from google.adk.errors.already_exists_error import AlreadyExistsError

        from tests.adapters.scripted_google_adk import PLACE, changing, said

        with suppress(AlreadyExistsError):
            await self.service.create_session(**PLACE)
        session: Any
        for text in texts:
            session = await self.service.get_session(**PLACE)
            state = {f"{prefix}{text}": 1 for prefix in ("", "user:", "app:")}
            await self.service.append_event(session, said(text, actions=changing(state).actions))
            session = await self.service.get_session(**PLACE)
            assert session.state.items() >= state.items()

    async def run_rejected(self, text: str) -> None:
        from google.genai import types

        from tests.adapters.scripted_google_adk import run

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

    async def add(self, texts: list[str]) -> None:
        key = {"project_key": "project", "session_id": "session"}
        await self.sessions.append(
            key, [{"type": "user", "uuid": text, "message": {"content": text}} for text in texts]
        )

    async def run_rejected(self, text: str) -> None:
        await self._turn(text, {"content": "The user has rejected it.", "is_error": True})

    async def _turn(self, text: str, answer: dict[str, Any]) -> None:
        self.number += 1
        name = f"{self.number}"
        usage = {"input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 5}

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
