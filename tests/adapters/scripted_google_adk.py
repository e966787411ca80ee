"""An agent of Google's ADK with a scripted model, and its sessions and events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.function_tool import FunctionTool
from google.genai import types
from pydantic import Field

from jazzmine.adapters.google_adk import JazzmineSessionService
from jazzmine.core import MessageStore
from jazzmine.core.long_term_memory import LongTermMemoryStore
from tests.adapters.played_base import Played
from tests.behaviour.backends import Config

__all__ = [
    "OWNER",
    "PLACE",
    "ScriptedModel",
    "changing",
    "items_config",
    "opened",
    "run",
    "runner",
    "said",
    "texts",
    "weather",
]

OWNER: dict[str, Any] = {"app_name": "a1", "user_id": "u1"}
PLACE: dict[str, Any] = {**OWNER, "session_id": "s1"}


def items_config(config: Config) -> Config:
    """Return the configuration of a long-term memory in the same place, where there is such one."""
    shared = config["storage"] in ("sqlite", "postgres", "mongodb")
    return config if shared else {"storage": "memory"}


@asynccontextmanager
async def opened(config: Config) -> AsyncGenerator[JazzmineSessionService]:
    """Open both stores in one place."""
    async with (
        await MessageStore.initialize(config) as store,
        await LongTermMemoryStore.initialize(items_config(config)) as items,
    ):
        yield JazzmineSessionService(store, items)


def changing(delta: dict[str, Any], **more: Any) -> Event:
    """Return an event that changes state."""
    return Event(author="guide", actions=EventActions(state_delta=delta), **more)


def said(text: str, **more: Any) -> Event:
    """Return an event in which the user says something."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", content=content, **more)


def texts(session: Any) -> list[str]:
    """Return the texts of a session's events."""
    return [event.content.parts[0].text for event in session.events]


class ScriptedModel(BaseLlm):
    """Calls the tool `weather` for each new question, and then answers; keeps what it was sent."""

    model: str = "scripted-1"
    sent: list[Any] = Field(default_factory=list)
    on_question: Callable[[], object] = lambda: None

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.on_question()
        self.sent.append(llm_request.contents)
        last = llm_request.contents[-1].parts[-1]
        if last.function_response:
            part = types.Part(text="It rains.")
        else:
            part = types.Part.from_function_call(name="weather", args={"city": "Lisbon"})
        yield LlmResponse(
            content=types.Content(role="model", parts=[part]),
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=10,
                candidates_token_count=5,
                total_token_count=15,
                cached_content_token_count=4,
            ),
        )


def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"rain in {city}"


def runner(
    service: JazzmineSessionService,
    model: ScriptedModel,
    tool: Any = weather,
) -> Runner:
    """Return a runner of an agent whose runs are recorded."""
    agent = LlmAgent(name="guide", model=model, tools=[tool], output_key="answer")
    app = App(name="a1", root_agent=agent, plugins=[service.recorder()])
    return Runner(app=app, session_service=service)


async def run(made: Runner, text: str | types.Part) -> list[Event]:
    """Run one turn of the session `s1`, and return its events."""
    part = types.Part(text=text) if isinstance(text, str) else text
    question = types.Content(role="user", parts=[part])
    turn = made.run_async(user_id="u1", session_id="s1", new_message=question)
    return [event async for event in turn]


class GoogleADK(Played):
    conversation_id = "a1/u1/s1"

    def prepare(self) -> None:
        self.service = JazzmineSessionService(self.store, self.items)

    async def run(self, text: str) -> None:
        await run(await self.runner(), text)

    async def runner(self, **more: Any) -> Any:
        def weather(city: str) -> str:
            """Return the weather of a city."""
            self.on_call()
            return f"rain in {city}"

        if await self.service.get_session(**PLACE) is None:
            await self.service.create_session(**PLACE)
        model = ScriptedModel(on_question=lambda: self.on_question())
        return runner(self.service, model, FunctionTool(weather, **more))

    async def stream(self, text: str) -> AsyncGenerator[Any]:
        question = types.Content(role="user", parts=[types.Part(text=text)])
        made = await self.runner()
        async for event in made.run_async(user_id="u1", session_id="s1", new_message=question):
            yield event

    async def add(self, texts: list[str]) -> None:
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
