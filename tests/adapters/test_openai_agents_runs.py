"""Runs of the OpenAI Agents SDK with a session: what is read, and what a call costs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from agents import RunConfig, Runner
from agents.memory import SessionSettings

from jazzmine.core import MessageStore
from tests.adapters.scripted_openai_agents import agent, said, session_of
from tests.backends.postgres_samples import behind
from tests.servers import postgres
from tests.servers.proxy import Proxy


@pytest.fixture
def session(store: MessageStore) -> Any:
    return session_of(store)


@pytest.mark.parametrize(("limit", "sent"), [(2, 3), (0, 1), (None, 5), (100, 5)])
async def test_a_run_limits_the_history(session: Any, limit: int | None, sent: int) -> None:
    guide, model = agent()
    await session.add_items(said("1", "2", "3", "4"))

    settings = RunConfig(session_settings=SessionSettings(limit=limit))
    await Runner.run(guide, "Rain?", session=session, run_config=settings)

    assert len(model.inputs[0]) == sent


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy(postgres.port_of(postgres.dsn())) as between:
        yield between


async def test_an_append_and_a_read_are_one_round_trip_each_and_a_pop_is_two(proxy: Proxy) -> None:
    with postgres.empty_schema() as schema:
        options = behind(proxy, schema, pool_min=1, pool_max=1)
        async with await MessageStore.initialize(options) as store:
            session = session_of(store)
            calls: list[Callable[[], Awaitable[Any]]] = [
                lambda: session.add_items(said("1")),
                lambda: session.add_items(said("2", "3")),
                lambda: session.get_items(limit=2),
                lambda: session.get_items(),
                lambda: session.pop_item(),
            ]
            for call in calls * 8:
                await call()  # so that the connection has prepared the statements

            found = []
            for call in calls:
                before = proxy.round_trips
                await call()
                found.append(proxy.round_trips - before)
            assert found == [1, 1, 1, 1, 2]
