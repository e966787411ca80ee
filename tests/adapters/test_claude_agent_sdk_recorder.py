"""Traces of the runs in transcripts of the Claude Agent SDK, and how new its summaries are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jazzmine.adapters.claude_agent_sdk import JazzmineSessionStore
from jazzmine.core import MessageStore
from tests.adapters.claude_agent_sdk_program import KEY
from tests.adapters.traces import check_recorded_turn, only_trace

CONVERSATION = "claude_agent_sdk/u1/project/session"


@pytest.fixture
def sessions(store: MessageStore) -> Any:
    """Untyped, because tests append entries that the SDK's types do not know."""
    return JazzmineSessionStore(store, user_id="u1", agent_id="a1", record_runs=True)


def entry(number: int, kind: str, content: Any, **message: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": f"e{number}",
        "timestamp": f"2026-11-23T20:00:{number:02d}.000Z",
        "message": {"role": kind, "content": content, **message},
    }


def answer(number: int, *blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 5}
    message = {"id": f"m{number}", "model": "claude", "usage": usage}
    return entry(number, "assistant", list(blocks), **{**message, **more})


def result(number: int, of: int, content: str, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": f"t{of}", "content": content, **more}
    return entry(number, "user", [block])


def call(number: int) -> dict[str, Any]:
    given = {"city": "Lisbon"}
    return {"type": "tool_use", "id": f"t{number}", "name": "weather", "input": given}


SAID = {"type": "text", "text": "It rains."}
TURN = [
    entry(0, "user", "Rain?"),
    answer(1, {"type": "thinking", "thinking": "Hm."}),
    {**answer(2, call(2)), "message": {**answer(1, call(2))["message"]}},
    result(5, 2, "rain in Lisbon"),
    answer(7, SAID),
]


@pytest.mark.parametrize("size", [1, 2, 5])
async def test_a_transcript_leaves_a_trace_however_it_is_appended(
    sessions: Any, store: MessageStore, size: int
) -> None:
    for begin in range(0, len(TURN), size):
        await sessions.append(KEY, TURN[begin : begin + size])

    trace = await only_trace(store, CONVERSATION)
    check_recorded_turn(trace)
    assert trace.total_latency_ms == 7000
    assert [one.latency_ms for one in trace.llm_calls] == [2000, 2000]
    assert [one.total_latency_ms for one in trace.tool_traces] == [3000]
    conversation = await store.get_conversation_by_id(CONVERSATION)
    assert conversation is not None
    assert conversation.title == "Rain?"


async def test_each_prompt_begins_a_run(sessions: Any, store: MessageStore) -> None:
    again = [entry(10, "user", "And now?"), answer(11, SAID)]
    last = [entry(20, "user", "Thanks."), answer(21, SAID), {"type": "custom-title"}]
    await sessions.append(KEY, [*TURN, *again])
    await sessions.append(KEY, last)

    traces = await store.get_turn_traces_by_conversation_id(CONVERSATION)
    assert [(one.turn_number, len(one.llm_calls)) for one in traces] == [(1, 2), (2, 1), (3, 1)]


async def test_entries_that_are_sent_again_count_once(sessions: Any, store: MessageStore) -> None:
    await sessions.append(KEY, TURN[:3])
    await sessions.append(KEY, TURN)

    check_recorded_turn(await only_trace(store, CONVERSATION))


@pytest.mark.parametrize(
    "source", [{"forkedFrom": {"sessionId": "s0"}}, {"requestSessionId": "s0"}]
)
async def test_what_a_fork_has_copied_counts_in_its_source(
    sessions: Any, store: MessageStore, source: dict[str, Any]
) -> None:
    copied = [{**one, **(source if one["type"] == "assistant" else {})} for one in TURN]
    await sessions.append(KEY, [*copied, entry(10, "user", "And now?"), answer(11, SAID)])

    assert (await only_trace(store, CONVERSATION)).total_tokens == 15


async def test_a_transcript_that_is_imported_again_keeps_its_turns(store: MessageStore) -> None:
    for _ in range(2):
        sessions: Any = JazzmineSessionStore(store, user_id="u1", agent_id="a1", record_runs=True)
        await sessions.append(KEY, [*TURN, entry(10, "user", "And now?"), answer(11, SAID)])

    traces = await store.get_turn_traces_by_conversation_id(CONVERSATION)
    assert [(one.turn_number, len(one.llm_calls)) for one in traces] == [(1, 2), (2, 1)]


async def test_nothing_is_recorded_by_default(store: MessageStore) -> None:
    sessions: Any = JazzmineSessionStore(store, user_id="u1", agent_id="a1")
    await sessions.append(KEY, TURN)

    assert await store.get_turn_traces_by_conversation_id(CONVERSATION) == []


async def test_a_summary_is_as_new_as_its_session(
    sessions: Any, store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_messages = store.append_messages

    async def append_later(*arguments: Any, **more: Any) -> Any:
        # The conversation is made some ms after its first message.
        await asyncio.sleep(0.005)
        return await append_messages(*arguments, **more)

    monkeypatch.setattr(store, "append_messages", append_later)
    await sessions.append(KEY, TURN)

    (listed,) = await sessions.list_sessions("project")
    (summary,) = await sessions.list_session_summaries("project")
    assert summary["mtime"] == listed["mtime"]
