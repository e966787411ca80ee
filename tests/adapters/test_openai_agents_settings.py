"""The arguments and settings of a session of the OpenAI Agents SDK."""

from __future__ import annotations

from typing import Any

import agents.memory.session_settings
import pytest
from agents.memory import SessionSettings

from jazzmine.adapters.openai_agents import JazzmineSession
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.openai_agents_sessions import contents, said


@pytest.mark.parametrize("given", [None, {}, SessionSettings()])
def test_settings_are_never_none(json_session: Any, given: Any) -> None:
    assert json_session(session_settings=given).session_settings == SessionSettings()


@pytest.mark.parametrize("given", [{"limit": 2}, SessionSettings(limit=2)])
async def test_settings_limit_what_is_read(json_session: Any, given: Any) -> None:
    session = json_session(session_settings=given)
    await session.add_items(said("1", "2", "3"))

    assert session.session_settings == SessionSettings(limit=2)
    assert contents(await session.get_items()) == ["2", "3"]
    assert contents(await session.get_items(limit=1)) == ["3"]
    assert contents(await session.get_items(limit=9)) == ["1", "2", "3"]


def test_settings_of_another_type_are_a_type_error(json_session: Any) -> None:
    with pytest.raises(TypeError, match="session_settings"):
        json_session(session_settings=7)


def test_an_unknown_setting_is_a_type_error_in_the_words_of_the_sdk(json_session: Any) -> None:
    with pytest.raises(TypeError, match=r"^Unknown session settings: limits, order$") as raised:
        json_session(session_settings={"order": 1, "limits": 2})
    coerce = getattr(agents.memory.session_settings, "coerce_session_settings", None)
    if coerce is not None:
        with pytest.raises(TypeError, match=f"^{raised.value}$"):
            coerce({"order": 1, "limits": 2})


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
