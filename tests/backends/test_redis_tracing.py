"""The spans of redis-py's instrumentor nest below those of the calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.instrumentation.redis import RedisInstrumentor

from jazzmine.core import working_memory as core
from jazzmine.sync import working_memory as sync
from tests.spans import Recorder, parents, recorded


@pytest.fixture
def spans() -> Iterator[Recorder]:
    instrumentor = RedisInstrumentor()
    with recorded() as recorder:
        instrumentor.instrument(tracer_provider=recorder.provider)
        try:
            yield recorder
        finally:
            instrumentor.uninstrument()


def test_the_commands_of_a_sync_store_nest_below_its_calls(url: str, spans: Recorder) -> None:
    with sync.WorkingMemoryStore.initialize(url) as store:
        store.get_or_create("c", "user", "agent")
        spans.take()
        store.end_turn("c", "Hello", "greet")

        assert parents(spans.take()) == {
            "EVALSHA": "jazzmine.end_turn",
            "jazzmine.end_turn": None,
        }


async def test_the_commands_of_an_async_store_nest_below_its_calls(
    url: str, spans: Recorder
) -> None:
    async with await core.WorkingMemoryStore.initialize(url) as store:
        await store.get_or_create("c", "user", "agent")
        spans.take()
        await store.end_turn("c", "Hello", "greet")

        assert parents(spans.take()) == {
            "EVALSHA": "jazzmine.end_turn",
            "jazzmine.end_turn": None,
        }
