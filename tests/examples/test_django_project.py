"""The Django project: its own tests, and its command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.examples.serving import EXAMPLES, agent_async, assert_whole, many

PROJECT = EXAMPLES / "django_project"


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "desk.settings",
        "JAZZMINE_MESSAGE_STORE": f"json:{folder / 'messages.json'}",
    }
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120
    )


def test_its_own_tests_pass(tmp_path: Path) -> None:
    ran = python(tmp_path, str(PROJECT / "manage.py"), "test", str(PROJECT))

    assert ran.returncode == 0, ran.stderr
    assert re.search(r"Ran 5 tests.*\n\nOK", ran.stderr)


def test_a_conversation_of_the_async_chat_is_exported(tmp_path: Path) -> None:
    url = f"json:{tmp_path / 'messages.json'}"
    with agent_async(tmp_path, {"JAZZMINE_MESSAGE_STORE": url}) as chat:
        many(chat, [("c1", "ada", ["Hello", "How much is assam?"])])

    ran = python(tmp_path, str(PROJECT / "manage.py"), "export_conversation", "c1")

    conversation, *messages = [json.loads(line) for line in ran.stdout.splitlines()]
    assert conversation["id"] == "c1"
    [stored] = assert_whole(url, ["c1"], 2)
    assert messages == [each.model_dump(mode="json") for each in stored]
