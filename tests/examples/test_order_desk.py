"""The order desk, run by the command of the documentation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jazzmine.sync import MessageRole, MessageStore

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    not Path(sys.prefix, ".installed").exists(), reason="scripts/install has not made this Python"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("desk") / "agent.db"


@pytest.fixture(scope="module")
def shown(path: Path) -> str:
    """The output of `scripts/demo`, which kills the async half, and runs the sync one."""
    script, environment = [str(ROOT / "scripts" / "demo"), str(path)], {"VENV": sys.prefix}
    ran = subprocess.run(
        script, capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    assert ran.stderr == ""
    return ran.stdout


def test_an_invalid_answer_is_asked_again(shown: str) -> None:
    assert "Desk  Sorry, that is none of: damaged, wrong item, changed my mind." in shown


def test_the_sync_script_continues_in_the_middle_of_the_flow_of_the_killed_one(shown: str) -> None:
    opened = shown.index("By the way, when do you open")

    assert "(found: 'Return an order', collecting_slots;" in shown[:opened]
    assert "reason = damaged; still to ask: pickup)" in shown[:opened]
    assert "Please tell me the day to pick it up" in shown[opened:]


def test_an_action_that_cannot_be_undone_needs_a_confirmation(shown: str) -> None:
    assert shown.index("This cannot be undone.") < shown.index("your return label is R-1")


def test_every_turn_is_stored_with_its_trace(shown: str, path: Path) -> None:
    with MessageStore.initialize({"storage": "sqlite", "path": str(path)}) as store:
        messages = store.get_messages_by_conversation_id("desk-1")
        traces = store.get_turn_traces_by_conversation_id("desk-1")

    assert [m.role for m in messages if m.original_content].count(MessageRole.USER) == 7
    assert [m.original_content for m in messages if m.role is MessageRole.TOOL] == [
        "a blue kettle, delivered on Tuesday",
        "a van is free that day",
        '{"label": "R-1"}',
    ]
    assert len(messages) == 20
    assert [trace.turn_number for trace in traces] == [1, 2, 3, 4, 5, 6, 7]


def test_the_demo_shows_the_kill_and_how_to_look_at_the_conversation(shown: str) -> None:
    assert "(killed with kill -9, while it waits for the answer)" in shown
    command = shown.splitlines()[-1].removeprefix("Look at it: ")
    assert "R-1" in subprocess.check_output(command, shell=True, text=True, cwd=ROOT)
