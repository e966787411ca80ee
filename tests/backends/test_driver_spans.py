"""The spans of a driver's instrumentor nest below those of the calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from opentelemetry.instrumentation.psycopg import PsycopgInstrumentor
from opentelemetry.instrumentation.pymongo import PymongoInstrumentor
from opentelemetry.instrumentation.redis import RedisInstrumentor

from jazzmine import core, sync
from tests.behaviour.samples import conversation
from tests.servers import mongodb, postgres
from tests.servers import redis as redis_server
from tests.spans import Recorder, parents, recorded


@contextmanager
def schema() -> Iterator[dict[str, object]]:
    with postgres.empty_schema() as name:
        yield {"storage": "postgres", "dsn": postgres.dsn(), "schema": name}


@dataclass(frozen=True)
class Driver:
    """How to trace a driver, and a call that it makes."""

    instrumentor: Any
    place: Callable[[], AbstractContextManager[Any]]
    store: str
    call: Callable[[Any], Any]


DRIVERS = {
    "psycopg": Driver(
        PsycopgInstrumentor(),
        schema,
        "MessageStore",
        lambda store: store.store_conversation(conversation()),
    ),
    "pymongo": Driver(
        PymongoInstrumentor(),
        mongodb.database,
        "MessageStore",
        lambda store: store.store_conversation(conversation()),
    ),
    "redis": Driver(
        RedisInstrumentor(),
        redis_server.database,
        "WorkingMemoryStore",
        lambda store: store.get_or_create("c", "user", "agent"),
    ),
}


@pytest.fixture(scope="module", params=list(DRIVERS.values()), ids=list(DRIVERS))
def driver(request: pytest.FixtureRequest) -> Driver:
    chosen: Driver = request.param
    return chosen


@pytest.fixture(scope="module")
def spans(driver: Driver) -> Iterator[Recorder]:
    # What psycopg's puts back would make no connections of subclasses.
    connects = {
        kind: vars(kind)["connect"] for kind in (psycopg.Connection, psycopg.AsyncConnection)
    }
    with recorded() as recorder:
        # PyMongo's keeps the first provider that it is given.
        driver.instrumentor.instrument(tracer_provider=recorder.provider)
        try:
            yield recorder
        finally:
            driver.instrumentor.uninstrument()
            for kind, connect in connects.items():
                setattr(kind, "connect", connect)  # noqa: B010


def are_nested(recorder: Recorder) -> bool:
    """Return whether each span is below the only call."""
    found = parents(recorder.take())
    calls = [name for name, parent in found.items() if parent is None]
    return (
        len(calls) == 1 and calls[0].startswith("jazzmine.") and {*found.values()} == {None, *calls}
    )


def test_the_commands_of_a_sync_store_nest_below_its_calls(driver: Driver, spans: Recorder) -> None:
    with driver.place() as config, getattr(sync, driver.store).initialize(config) as store:
        spans.take()
        driver.call(store)

        assert are_nested(spans)


async def test_the_commands_of_an_async_store_nest_below_its_calls(
    driver: Driver, spans: Recorder
) -> None:
    with driver.place() as config:
        async with await getattr(core, driver.store).initialize(config) as store:
            spans.take()
            await driver.call(store)

            assert are_nested(spans)
