"""What a compaction keeps, and calls of tools that did not run, or not to their end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent, Runner, function_tool
from agents.extensions.memory import EncryptedSession
from agents.memory import OpenAIResponsesCompactionSession

from jazzmine.core import MessageStore
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.scripted_openai_agents import (
    CALL,
    OUTPUT,
    ScriptedModel,
    agent,
    said,
    session_of,
)
from tests.adapters.traces import only_trace

COMPACTION = {"type": "compaction", "encrypted_content": "abc"}


class ScriptedClient:
    """A client of OpenAI whose only call compacts to the items that it was made with."""

    def __init__(self, *output: dict[str, Any], on_call: Any = None) -> None:
        self.responses = self
        self.calls: list[dict[str, Any]] = []
        self._output, self._on_call = list(output), on_call

    async def compact(self, **call: Any) -> Any:
        self.calls.append(call)
        if self._on_call is not None:
            await self._on_call()
        return SimpleNamespace(output=self._output, usage=None)


def compacted(session: Any, client: Any, **more: Any) -> Any:
    return OpenAIResponsesCompactionSession("s1", session, client=client, model="gpt-4.1", **more)


def compacted_after_runs(session: Any, *output: dict[str, Any], on_call: Any = None) -> Any:
    client = ScriptedClient(*output, on_call=on_call)
    more: Any = {"should_trigger_compaction": lambda context: True, "compaction_mode": "input"}
    return compacted(session, client, **more)


@pytest.fixture
def session(store: MessageStore) -> Any:
    return session_of(store)


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
    async def fail() -> None:
        raise OSError("no network")

    wrapped = compacted(session, ScriptedClient(on_call=fail))
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


async def test_a_compaction_keeps_originals_and_traces(store: MessageStore) -> None:
    session, (guide, _) = session_of(store), agent()
    async with session.recorder() as hooks:
        await Runner.run(guide, "Rain?", session=session, hooks=hooks)

    async with session.recorder() as hooks:
        await Runner.run(
            guide, "And now?", session=compacted_after_runs(session, COMPACTION), hooks=hooks
        )

    assert (await session.get_items())[-1] == COMPACTION
    traces = await store.get_turn_traces_by_conversation_id("s1")
    assert [trace.turn_number for trace in traces] == [1, 2]
    stored = await store.get_messages_by_conversation_id("s1")
    assert [message.original_content for message in stored if message.is_flagged][:1] == ["Rain?"]
    async with session.recorder() as hooks:
        await Runner.run(guide, "Still?", session=session, hooks=hooks)
    assert (await store.get_turn_traces_by_conversation_id("s1"))[-1].turn_number == 3


@pytest.mark.parametrize("output", [(COMPACTION,), ()], ids=["compacted", "to nothing"])
async def test_a_compaction_keeps_the_turn_of_another_worker(
    store: MessageStore, output: tuple[dict[str, Any], ...]
) -> None:
    session, (guide, _) = session_of(store), agent()

    async def add() -> None:
        await session_of(store).add_items(said("of another worker"))

    await Runner.run(guide, "Rain?", session=compacted_after_runs(session, *output, on_call=add))

    kept = await session.get_items()
    assert kept[0] == said("Rain?")[0]
    assert kept[-1] == said("of another worker")[0]


async def test_a_compaction_leaves_out_what_has_expired() -> None:
    with SyncMessageStore.initialize("memory:") as store:
        session, (guide, _) = session_of(store), agent()
        encrypted: Any = EncryptedSession("s1", session, encryption_key="k" * 20, ttl=1)
        await encrypted.add_items(said(*(f"{number}" for number in range(30))))
        await asyncio.sleep(2.1)

        outer = compacted_after_runs(encrypted, COMPACTION)
        await Runner.run(guide, "Rain?", session=outer)

        assert [item.get("type") for item in await outer.get_items()] == ["compaction"]
        assert len(await session.get_items()) == 1


async def test_a_rejected_call_and_one_that_times_out_did_not_succeed(store: MessageStore) -> None:
    async def weather(city: str) -> str:
        """Tell the weather."""
        await asyncio.sleep(5)
        return city

    slow = Agent[Any](
        name="guide", model=ScriptedModel(), tools=[function_tool(weather, timeout=0.01)]
    )
    session = session_of(store, "slow")
    async with session.recorder() as hooks:
        await Runner.run(slow, "Rain?", session=session, hooks=hooks)
    (tool,) = (await only_trace(store, "slow")).tool_traces
    assert not tool.success
    assert "timed out" in str(tool.error)

    asking = Agent[Any](
        name="guide", model=ScriptedModel(), tools=[function_tool(weather, needs_approval=True)]
    )
    session = session_of(store, "asked")
    async with session.recorder() as hooks:
        result = await Runner.run(asking, "Rain?", session=session, hooks=hooks)
        state = result.to_state()
        state.reject(result.interruptions[0])
        await Runner.run(asking, state, session=session, hooks=hooks)
    trace = await only_trace(store, "asked")
    (tool,) = trace.tool_traces
    assert (tool.tool_name, tool.success) == ("weather", False)
    assert trace.total_tokens == 30


async def test_the_tokens_of_nested_agents_count(store: MessageStore) -> None:
    inner, _ = agent()
    tool = inner.as_tool(tool_name="weather", tool_description="Tell the weather.")
    model = ScriptedModel("weather", '{"input": "Rain?"}')
    outer = Agent[Any](name="outer", model=model, tools=[tool])
    session = session_of(store)
    async with session.recorder() as hooks:
        result = await Runner.run(outer, "Rain?", session=session, hooks=hooks)

    trace = await only_trace(store, "s1")
    assert trace.total_tokens == result.context_wrapper.usage.total_tokens == 60
