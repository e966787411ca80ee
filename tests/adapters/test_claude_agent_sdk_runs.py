"""The Claude Agent SDK with a store: its own functions and its program, in several processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    InMemorySessionStore,
    delete_session_via_store,
    fork_session_via_store,
    get_session_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
    rename_session_via_store,
)

from jazzmine import MessageRole
from jazzmine.adapters.claude_agent_sdk import JazzmineSessionStore
from jazzmine.core import MessageStore
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.processes import run_together
from tests.behaviour.backends import Config

PROGRAM = "tests.adapters.claude_agent_sdk_program"


@pytest.fixture
def sessions(store: MessageStore) -> Any:
    """Untyped, because tests append entries that the SDK's types do not know."""
    return JazzmineSessionStore(store, user_id="u1", agent_id="a1")


@pytest.fixture
def place(tmp_path: Path) -> Config:
    return {"storage": "sqlite", "path": f"{tmp_path}/messages.db"}


@pytest.fixture
def homes(tmp_path: Path) -> list[Path]:
    """The folders of two processes, beside the file that the tool reads."""
    (tmp_path / "weather.txt").write_text("rain in Lisbon")
    homes = [tmp_path / name for name in ("first", "second")]
    for home in homes:
        home.mkdir()
    return homes


async def test_the_sdks_functions_see_what_they_see_in_its_own_store(sessions: Any) -> None:
    session_id = "11111111-1111-4111-8111-111111111111"
    key: Any = {"project_key": project_key_for_directory(None), "session_id": session_id}
    transcript: Any = []
    for number, kind in enumerate(["user", "assistant", "user", "assistant"]):
        transcript.append(
            {
                "type": kind,
                "uuid": f"{number:08d}-0000-4000-8000-000000000000",
                "parentUuid": transcript[-1]["uuid"] if transcript else None,
                "sessionId": session_id,
                "timestamp": "2025-01-01T00:00:00.000Z",
                "cwd": "/somewhere",
                "message": {"role": kind, "content": f"text {number}"},
            }
        )
    seen = []
    for tested in (InMemorySessionStore(), sessions):
        await tested.append(key, transcript)
        await rename_session_via_store(tested, session_id, "A name")
        forked = await fork_session_via_store(tested, session_id)
        listed = await list_sessions_from_store(tested)
        messages = [
            [one.message for one in await get_session_messages_from_store(tested, each)]
            for each in (session_id, forked.session_id)
        ]
        await delete_session_via_store(tested, session_id)
        left = await list_sessions_from_store(tested)
        seen.append(
            (
                sorted((one.custom_title or "", one.first_prompt or "") for one in listed),
                messages,
                [one.session_id == forked.session_id for one in left],
            )
        )

    assert seen[0] == seen[1]
    assert seen[0][2] == [True]


# Several processes


def test_a_second_process_resumes_the_session(place: Config, homes: list[Path]) -> None:
    (first,) = run_together(PROGRAM, place, ("turn", "Rain?"), home=homes[0])
    session_id, answer, _ = json.loads(first)
    again = ("turn", "And now?", session_id)
    (second,) = run_together(PROGRAM, place, again, home=homes[1])

    assert json.loads(second)[:2] == [session_id, answer] == [session_id, "It rains."]
    sent = json.dumps(json.loads(second)[2])
    assert sent.index("Rain?") < sent.index("It rains.") < sent.index("And now?")
    assert sent.count("tool_use_id") == 2
    with SyncMessageStore.initialize(place) as store:
        (conversation,) = store.get_conversations_by_user_id("u1")
        traces = store.get_turn_traces_by_conversation_id(conversation.id)
        said = [
            (one.role.value, one.original_content)
            for one in store.get_immediate_context(conversation.id, 50)
            if one.role is not MessageRole.SYSTEM
        ]
    assert conversation.title == "Rain?"
    for trace in traces:
        assert [call.total_tokens for call in trace.llm_calls] == [2, 2]
        assert ["rain in Lisbon" in str(tool.final_data) for tool in trace.tool_traces] == [True]
    assert len(traces) == 2
    assert [role for role, _ in said].count("tool") == 2
    assert said[0] == ("user", "Rain?")
    assert said[-1] == ("assistant", "It rains.")


@pytest.mark.skipif(
    not hasattr(ClaudeAgentOptions(), "session_store_flush"),
    reason="this version of claude-agent-sdk stores nothing before the end of a turn",
)
def test_a_run_that_was_killed_in_a_tool_goes_on(place: Config, homes: list[Path]) -> None:
    (session_id,) = run_together(PROGRAM, place, ("killed", "Rain?"), home=homes[0])
    again = ("turn", "And now?", session_id.strip())
    (printed,) = run_together(PROGRAM, place, again, home=homes[1])

    assert json.loads(printed)[:2] == [session_id.strip(), "It rains."]
    sent = json.dumps(json.loads(printed)[2])
    assert sent.index("Rain?") < sent.index("And now?")
    # Each call that the model is shown has its result.
    assert sent.count('"tool_use"') == sent.count('"tool_result"')
