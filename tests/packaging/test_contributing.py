"""CONTRIBUTING.md performed on a copy: each place that a change leaves out is named by a check."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECKS = [
    f"tests/unit/test_{name}.py"
    for name in ("samples", "record_descriptions", "complete_changes", "sealed_fields")
]
POSTGRES = "src/jazzmine/backends/postgres/migrations"
SQLITE = "src/jazzmine/backends/sqlite/migrations/messages"
MESSAGES = "src/jazzmine/records/messages.py"
STORE = "src/jazzmine/_async/message_store/store.py"
METHOD = '''    async def count_messages(self, conversation_id: str, *, limit: int, after: str):
        """Count the messages of a conversation."""
        return 0

'''


class Copy:
    """A copy of the repository, without its environment and history."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("src", "tests", "scripts"):
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        for name in ("CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml"):
            shutil.copy(ROOT / name, folder / name)

    def insert(self, path: str, text: str, before: str) -> None:
        """Insert a text into a file before another one."""
        file = self._folder / path
        found = file.read_text("utf-8")
        assert before in found, path
        file.write_text(found.replace(before, text + before, 1), "utf-8")

    def add_migration(self, folder: str, name: str, text: str) -> None:
        """Add a file with the next number."""
        last = max(path.name for path in (self._folder / folder).glob("*.sql"))
        (self._folder / folder / f"{int(last[:4]) + 1:04}_{name}.sql").write_text(text)

    def run(self, *command: str) -> tuple[int, str]:
        """Run a Python program in the copy; return its exit status and what it printed."""
        ran = subprocess.run(
            [sys.executable, *command],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": f"{self._folder / 'src'}"},
            capture_output=True,
            text=True,
            check=False,
        )
        return ran.returncode, ran.stdout + ran.stderr

    def check(self) -> tuple[int, str]:
        """Run the checks that say what a change needs."""
        return self.run("-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", *CHECKS)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_what_a_field_still_needs_is_named(copy: Copy) -> None:
    copy.insert(MESSAGES, '    invented: str = ""\n', "    is_flagged: bool")

    status, said = copy.check()

    assert status == 1, said
    for place in (f"{POSTGRES}: ", f"{SQLITE}: ", "`Text`", "samples.py", "CHANGELOG.md"):
        assert re.search(f"{place}.*invented", said), (place, said)
    assert "test_every_field_of_a_record_is_described_in_the_order_of_the_fields[Message]" in said


def test_a_field_that_is_added_as_the_guide_says_is_complete(copy: Copy) -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    line = re.search(r"^ +(language: .*\n)", guide, re.MULTILINE)
    migration = re.search(r"^ +(\$added_columns)\n", guide, re.MULTILINE)
    assert line is not None
    assert migration is not None

    copy.insert(MESSAGES, f"    {line[1]}", "    is_flagged: bool")
    copy.insert(MESSAGES, "        language: the language of the text.\n", "        is_flagged:")
    copy.add_migration(POSTGRES, "language", f"{migration[1]}\n")
    copy.add_migration(SQLITE, "language", "-- The views are made anew.\n")
    copy.insert("tests/behaviour/samples.py", '        "language": text,\n', '        "is_flagged"')
    copy.insert(
        "src/jazzmine/encryption/fields.py",
        '        "language": "",\n',
        '        "intent": "unknown"',
    )
    copy.insert("CHANGELOG.md", "- `Message.language`.\n", "- `TurnRecorder` makes")

    status, said = copy.check()

    assert status == 0, said


def test_what_a_method_still_needs_is_named(copy: Copy) -> None:
    copy.insert(STORE, METHOD, "    @operation")

    status, said = copy.check()

    assert status == 1, said
    for place in ("calls.py: .*CALLS", "CHANGELOG.md: "):
        assert re.search(f"{place}.*count_messages", said), (place, said)

    entry = '    "count_messages": lambda store: store.count_messages("c1", limit=1, after="m1"),\n'
    copy.insert("tests/behaviour/calls.py", entry, '    "delete_conversation": lambda store: ')
    _, said = copy.check()

    for place in (
        "WITH_AN_ID",
        "AFTER",
        "COUNTS",
        "model.py and state_machine.py: ",
        "state_machine.py: ",
        "scope_samples.py: ",
    ):
        assert re.search(f"{place}.*count_messages", said), (place, said)
    status, said = copy.run("scripts/generate_sync.py", "--check")
    assert status == 1, said
    assert "src/jazzmine/_sync/message_store/store.py" in said
