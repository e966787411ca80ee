"""Runs of the OpenAI Agents SDK with a session: its own loop, compaction, several processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from agents import RunConfig, Runner
from agents.memory import OpenAIResponsesCompactionSession, SessionSettings
from agents.memory.session import is_openai_responses_compaction_aware_session

from jazzmine.core import MessageStore
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.scripted_openai_agents import CALL, OUTPUT, agent, said, session_of
from tests.backends.postgres_samples import behind
from tests.servers import postgres
from tests.servers.proxy import Proxy

COMPACTION = {"type": "compaction", "encrypted_content": "abc"}


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


def test_an_agent_runs_in_a_loop_for_each_call(sync_store: SyncMessageStore) -> None:
    guide, model = agent()
    session = session_of(sync_store)

    # `Runner.run_sync` leaves the thread's event loop open.
    for question in ("Rain?", "And now?"):
        with ThreadPoolExecutor(1, initializer=_new_loop) as thread:
            thread.submit(Runner.run_sync, guide, question, session=session).result()
            thread.submit(_close_loop).result()

    assert len(model.inputs[2]) == 5


def _new_loop() -> None:
    asyncio.set_event_loop(asyncio.new_event_loop())


def _close_loop() -> None:
    asyncio.get_event_loop().close()


class ScriptedClient:
    """A client of OpenAI whose only call compacts to the items that it was made with."""

    def __init__(self, *output: dict[str, Any], error: Exception | None = None) -> None:
        self.responses = self
        self.calls: list[dict[str, Any]] = []
        self._output, self._error = list(output), error

    async def compact(self, **call: Any) -> Any:
        self.calls.append(call)
        if self._error is not None:
            raise self._error
        return SimpleNamespace(output=self._output, usage=None)


def compacted(session: Any, client: Any, **more: Any) -> Any:
    return OpenAIResponsesCompactionSession("s1", session, client=client, model="gpt-4.1", **more)


def test_a_compacted_session_is_what_the_sdk_asks_for(session: Any) -> None:
    assert is_openai_responses_compaction_aware_session(compacted(session, ScriptedClient()))
    assert not is_openai_responses_compaction_aware_session(session)


async def test_a_compaction_replaces_the_history(session: Any) -> None:
    client = ScriptedClient(*said("question"), COMPACTION)
    wrapped = compacted(session, client, compaction_mode="input")
    await wrapped.add_items([*said("question"), CALL, OUTPUT])

    await wrapped.run_compaction()
    assert client.calls == []
    await wrapped.run_compaction({"force": True})

    (call,) = client.calls
    assert [item.get("type", "message") for item in call["input"]] == [
        "message",
        "function_call",
        "function_call_output",
    ]
    assert await session.get_items() == [*said("question"), COMPACTION]
    await wrapped.add_items(said("next"))
    assert await wrapped.get_items() == [*said("question"), COMPACTION, *said("next")]
    assert await wrapped.pop_item() == said("next")[0]
    await wrapped.clear_session()
    assert await session.get_items() == []


async def test_a_compaction_that_fails_keeps_the_history(session: Any) -> None:
    wrapped = compacted(session, ScriptedClient(error=OSError("no network")))
    await wrapped.add_items([*said("question"), CALL, OUTPUT])

    with pytest.raises(OSError, match="no network"):
        await wrapped.run_compaction({"force": True, "compaction_mode": "input"})

    assert await session.get_items() == [*said("question"), CALL, OUTPUT]


async def test_a_run_compacts_its_session(session: Any) -> None:
    client = ScriptedClient(COMPACTION)
    wrapped = compacted(session, client, should_trigger_compaction=lambda context: True)
    guide, model = agent()

    await Runner.run(guide, "Rain?", session=wrapped)

    assert [call["previous_response_id"] for call in client.calls] == ["r2"]
    assert await session.get_items() == [COMPACTION]
    await Runner.run(guide, "And now?", session=session)
    assert [item.get("type") or item["role"] for item in model.inputs[2]] == ["compaction", "user"]


# What a call costs


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


# Several processes
