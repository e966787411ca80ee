"""Runs of Google's ADK in which user and model speak at once (`Runner.run_live`)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.apps import App
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.genai import types

from jazzmine.adapters.google_adk import JazzmineSessionService
from jazzmine.core import MessageStore
from jazzmine.core.long_term_memory import LongTermMemoryStore
from tests.adapters.scripted_google_adk import PLACE, ScriptedModel


class Connection(BaseLlmConnection):
    """Hears a question, says that it rains, and tells what that has used."""

    async def send_history(self, history: Any) -> None:
        pass

    async def send_content(self, content: Any) -> None:
        pass

    async def send_realtime(self, blob: Any) -> None:
        pass

    has_spoken = False

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        if self.has_spoken:
            await asyncio.Event().wait()
        self.has_spoken = True
        heard = types.Transcription(text="Rain?", finished=True)
        yield LlmResponse(input_transcription=heard, partial=False)
        said = types.Transcription(text="It rains.", finished=True)
        yield LlmResponse(output_transcription=said, partial=False)
        used = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10, candidates_token_count=5, total_token_count=15
        )
        yield LlmResponse(usage_metadata=used, model_version="live-1", turn_complete=True)

    async def close(self) -> None:
        pass


class LiveModel(ScriptedModel):
    @asynccontextmanager
    async def connect(self, llm_request: Any) -> AsyncGenerator[BaseLlmConnection]:
        yield Connection()


async def test_what_was_spoken_can_be_read_and_its_tokens_count() -> None:
    async with (
        await MessageStore.initialize("memory:") as store,
        await LongTermMemoryStore.initialize("memory:") as items,
    ):
        service = JazzmineSessionService(store, items)
        await service.create_session(**PLACE)
        agent = LlmAgent(name="guide", model=LiveModel())
        app = App(name="a1", root_agent=agent, plugins=[service.recorder()])
        live = Runner(app=app, session_service=service).run_live(
            user_id="u1", session_id="s1", live_request_queue=LiveRequestQueue()
        )
        async with aclosing(live):
            async for event in live:
                if event.turn_complete:
                    break
        del live, event
        for _ in range(3):
            gc.collect()
            await asyncio.sleep(0.05)

        stored = await store.get_messages_by_conversation_id("a1/u1/s1")
        assert [(one.role.value, one.original_content) for one in stored[:2]] == [
            ("user", "Rain?"),
            ("assistant", "It rains."),
        ]
        (trace,) = await store.get_turn_traces_by_conversation_id("a1/u1/s1")
        assert [(call.model, call.total_tokens) for call in trace.llm_calls] == [("live-1", 15)]
