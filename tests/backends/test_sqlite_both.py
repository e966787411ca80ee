"""Messages and working memory in one SQLite file: threads, tasks, processes, versions, locks."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jazzmine.errors import ConfigurationError
from jazzmine.sync import MessageStore, WorkingMemoryStore
from tests.behaviour.samples import conversation
from tests.faults.sizes import report, size
from tests.servers.programs import Program

KINDS: list[Any] = [MessageStore, WorkingMemoryStore]

# A turn: an update of working memory, whose revision names the message that is stored with it.
TURNS = """
import json, sys
from jazzmine import Message, MessageRole
from jazzmine.sync import MessageStore, WorkingMemoryStore
config, count = {"storage": "sqlite", "path": sys.argv[1]}, int(sys.argv[2])
with MessageStore.initialize(config) as store, WorkingMemoryStore.initialize(config) as memory:
    for _ in range(count):
        with memory.locked("c1") as wm:
            wm.end_turn("response", "intent")
            turn = {"conversation_id": "c1", "user_id": "u1", "role": MessageRole.USER}
            store.append_messages("c1", [
                Message(id=f"turn-{wm.revision}", original_content="hello", **turn)
            ])
"""

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


@pytest.fixture
def both(config: dict[str, object]) -> Iterator[tuple[MessageStore, WorkingMemoryStore]]:
    with (
        MessageStore.initialize(config) as store,
        WorkingMemoryStore.initialize(config) as memory,
    ):
        store.store_conversation(conversation("c1"))
        memory.get_or_create("c1", "u1", "a1")
        yield store, memory


def is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def python(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return Program(command, stdin=subprocess.PIPE, text=True)


# Used at once


def test_eight_processes_take_turns_in_both(
    both: tuple[MessageStore, WorkingMemoryStore], path: Path
) -> None:
    count = size(15, 200)
    processes = [python(TURNS, path, count) for _ in range(8)]
    for process in processes:
        process.communicate(timeout=300)

    assert [process.returncode for process in processes] == [0] * 8
    found = both[1].get("c1")
    assert found is not None
    assert found.revision == 1 + 8 * count
    # Each message was appended under the lock, so that the turns stand in their order.
    stored = [one.id for one in both[0].iter_messages("c1")]
    assert stored == [f"turn-{number}" for number in range(1, 1 + 8 * count)]
    assert is_sound(path)
    report(f"sqlite, both in one file: 8 processes x {count} turns: all counted, in order")


# Versions and other applications


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
