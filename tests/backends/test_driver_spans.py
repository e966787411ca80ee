"""The spans of a driver's instrumentor nest below those of the calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from opentelemetry.instrumentation.psycopg import PsycopgInstrumentor
from opentelemetry.instrumentation.pymongo import PymongoInstrumentor
from opentelemetry.instrumentation.redis import RedisInstrumentor

from tests.behaviour.apis import APIS, Api
from tests.faults.networks import config_of
from tests.spans import Recorder, parents, recorded

INSTRUMENTORS: dict[str, Any] = {
    "postgres": PsycopgInstrumentor(),
    "mongodb": PymongoInstrumentor(),
    "redis": RedisInstrumentor(),
}


@pytest.fixture(scope="module", params=INSTRUMENTORS)
def traced(request: pytest.FixtureRequest) -> Iterator[tuple[str, Recorder]]:
    # What psycopg's puts back would make no connections of subclasses.
    connects = {
        kind: vars(kind)["connect"] for kind in (psycopg.Connection, psycopg.AsyncConnection)
    }
    with recorded() as spans:
        # PyMongo's keeps the first provider that it is given.
        INSTRUMENTORS[request.param].instrument(tracer_provider=spans.provider)
        try:
            yield request.param, spans
        finally:
            INSTRUMENTORS[request.param].uninstrument()
            for kind, connect in connects.items():
                setattr(kind, "connect", connect)  # noqa: B010


@pytest.mark.parametrize("api", APIS, ids=str)
async def test_the_commands_of_a_store_nest_below_its_calls(
    traced: tuple[str, Recorder], api: Api, tmp_path: Path
) -> None:
    name, spans = traced
    kind: Any = api.WorkingMemoryStore if name == "redis" else api.MessageStore
    with config_of(name, tmp_path) as config:
        async with await kind.initialize(config) as store:
            spans.take()
            await store.ping()
            found = parents(spans.take())

    assert found.pop("jazzmine.ping") is None
    assert {*found.values()} == {"jazzmine.ping"}
