"""Messages and working memory in one SQLite file that is new, or of a newer version."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jazzmine.errors import ConfigurationError
from jazzmine.sync import MessageStore, WorkingMemoryStore
from tests.servers.programs import Program

KINDS: list[Any] = [MessageStore, WorkingMemoryStore]

OPEN = """
import sys
from jazzmine.sync import MessageStore, WorkingMemoryStore
sys.stdin.read()
kinds = [MessageStore, WorkingMemoryStore]
for kind in kinds if sys.argv[2] == "0" else reversed(kinds):
    with kind.initialize({"storage": "sqlite", "path": sys.argv[1]}) as store:
        store.ping()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture
def config(path: Path) -> dict[str, object]:
    return {"storage": "sqlite", "path": str(path)}


def is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def python(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return Program(command, stdin=subprocess.PIPE, text=True)


def test_twelve_processes_open_both_in_a_new_file_at_once(path: Path) -> None:
    processes = [python(OPEN, path, number % 2) for number in range(12)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()

    assert [process.wait(240) for process in processes] == [0] * 12
    assert is_sound(path)


@pytest.mark.parametrize("newer", KINDS)
def test_tables_of_one_kind_that_are_newer_are_refused_for_that_kind_alone(
    newer: Any, config: dict[str, object], path: Path
) -> None:
    other = next(kind for kind in KINDS if kind is not newer)
    for kind in KINDS:
        kind.initialize(config).close()
    component = "messages" if newer is MessageStore else "working_memory"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            "INSERT INTO jazzmine_migrations (component, version, name, applied_at)"
            " VALUES (?, 99, 'newer', 0)",
            [component],
        )
    before = path.read_bytes()

    with pytest.raises(ConfigurationError, match="newer"):
        newer.initialize(config)

    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    other.initialize(config).close()
