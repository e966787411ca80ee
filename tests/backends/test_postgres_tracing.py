"""The spans of psycopg's instrumentor nest below those of the calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.instrumentation.psycopg import PsycopgInstrumentor

from jazzmine.core import message_store as core
from jazzmine.sync import message_store as sync
from tests.behaviour.samples import conversation
from tests.servers import postgres
from tests.spans import Recorder, parents, recorded

Config = dict[str, object]


@pytest.fixture
def config() -> Iterator[Config]:
    with postgres.empty_schema() as schema:
        yield {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema}


@pytest.fixture
def spans() -> Iterator[Recorder]:
    instrumentor = PsycopgInstrumentor()
    with recorded() as recorder:
        instrumentor.instrument(tracer_provider=recorder.provider)
        try:
            yield recorder
        finally:
            instrumentor.uninstrument()


def nested(recorder: Recorder) -> bool:
    """Return whether each span is below the only call."""
    spans = recorder.take()
    call = "jazzmine.store_conversation"
    found = parents(spans)
    assert found.pop(call) is None
    return len(spans) > 1 and set(found.values()) == {call}


def test_the_commands_of_a_sync_store_nest_below_its_calls(config: Config, spans: Recorder) -> None:
    with sync.MessageStore.initialize(config) as store:
        spans.take()
        store.store_conversation(conversation())

        assert nested(spans)


async def test_the_commands_of_an_async_store_nest_below_its_calls(
    config: Config, spans: Recorder
) -> None:
    async with await core.MessageStore.initialize(config) as store:
        spans.take()
        await store.store_conversation(conversation())

        assert nested(spans)
