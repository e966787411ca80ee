"""The order desk, run as a newcomer runs it, and shown in a guide as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jazzmine.sync import MessageStore

ROOT = Path(__file__).parents[2]
DESK = ROOT / "examples" / "order_desk"


def run(half: str, path: Path) -> str:
    script = [sys.executable, str(DESK / half), str(path)]
    return subprocess.run(script, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("desk") / "messages.json"


@pytest.fixture(scope="module")
def shown(path: Path) -> str:
    return run("async_turns.py", path) + run("sync_turns.py", path)


def test_an_invalid_answer_is_asked_again(shown: str) -> None:
    assert "Desk  Sorry, that is none of: damaged, wrong item, changed my mind." in shown


def test_the_sync_script_goes_on_where_the_async_one_stopped(shown: str) -> None:
    opened = shown.index("By the way, when do you open")

    assert "Please tell me the day to pick it up" in shown[opened:]


def test_what_cannot_be_undone_is_asked_first(shown: str) -> None:
    assert shown.index("This cannot be undone.") < shown.index("your return label is R-1")


def test_the_tool_sections_show_each_call_once(shown: str) -> None:
    assert shown.count("<completed_tool_calls>") == 1
    assert shown.count("<current_turn_tool_calls>") == 1
    assert shown.count('tool="book_pickup"') == 1
    assert shown.count('tool="create_return"') == 1


def test_the_working_memory_knows_the_topic_shift_and_the_flow(shown: str) -> None:
    assert "topic shifts    opening_hours" in shown
    assert "flows completed Return an order" in shown


def test_every_turn_is_stored_with_its_trace(shown: str, path: Path) -> None:
    with MessageStore.initialize(f"json:{path}") as store:
        messages = store.get_messages_by_conversation_id("desk-1")
        traces = store.get_turn_traces_by_conversation_id("desk-1")

    assert len(messages) == 14
    assert [trace.turn_number for trace in traces] == [1, 2, 3, 4, 5, 6, 7]


def test_the_path_of_the_file_is_shown(shown: str, path: Path) -> None:
    assert f"All of it is in {path}" in shown


def test_the_guide_shows_the_turn_as_it_is() -> None:
    guide = (ROOT / "docs" / "guides" / "agent.md").read_text()
    source = (DESK / "sync_turns.py").read_text()
    turn = source[source.index("def turn(") : source.index("\n\n\ndef main")]

    assert f"```python\n{turn}\n```" in guide


def test_the_ten_lines_of_the_readme_run(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    section = readme[readme.index("## Ten lines") :]
    code = section[section.index("```python\n") + 10 : section.index("\n```\n")]

    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert len(code.splitlines()) == 10
    assert ran.stdout == "user Any tea?\nassistant Green.\n"
