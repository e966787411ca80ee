"""The arguments and settings of a session of the OpenAI Agents SDK."""

from __future__ import annotations

from typing import Any

import pytest
from agents.memory import SessionSettings

from jazzmine.adapters.openai_agents import JazzmineSession
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.scripted_openai_agents import contents, said


@pytest.mark.parametrize("given", [{"limit": 2}, SessionSettings(limit=2)])
async def test_settings_limit_what_is_read(json_session: Any, given: Any) -> None:
    session = json_session(session_settings=given)
    await session.add_items(said("1", "2", "3"))

    assert session.session_settings == SessionSettings(limit=2)
    assert contents(await session.get_items()) == ["2", "3"]
    assert contents(await session.get_items(limit=1)) == ["3"]
    assert contents(await session.get_items(limit=9)) == ["1", "2", "3"]


@pytest.mark.parametrize("name", ["session_id", "user_id", "agent_id"])
@pytest.mark.parametrize("missing", [None, ""])
def test_a_missing_id_is_a_value_error(json_session: Any, name: str, missing: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} is missing"):
        json_session(**{name: missing})


@pytest.fixture
def json_session(tmp_path: Any) -> Any:
    """Makes sessions on a JSON file, with other arguments."""
    with SyncMessageStore.initialize(f"json:{tmp_path}/m.json") as store:
        ids = {"session_id": "s1", "user_id": "u1", "agent_id": "a1"}
        yield lambda **more: JazzmineSession(store, **{**ids, **more})
