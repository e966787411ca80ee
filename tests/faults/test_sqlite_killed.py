"""Processes that update a working memory in SQLite are killed with kill -9, four at once."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

from jazzmine.errors import LockTimeoutError
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.faults.sizes import report, size
from tests.servers.programs import Program

WRITERS = 4
KILLS = size(5, 1000)  # the second with scripts/soak -k sqlite_killed
LONGEST_LIFE = 0.15


def generation(number: int, options: dict[str, object]) -> list[int]:
    """Let writers update at once, kill them, and return the revisions that they acknowledged."""
    chance = random.Random(4711 + number)
    command = [sys.executable, "-m", "tests.backends.memory_holder", "count", json.dumps(options)]
    writers = [Program(command, stdout=subprocess.PIPE, text=True) for _ in range(WRITERS)]
    acknowledged: list[int] = []
    firsts = [writer.stdout.readline() for writer in writers if writer.stdout]
    for writer in writers:
        time.sleep(chance.uniform(0, LONGEST_LIFE / WRITERS))
        writer.kill()
    for first, writer in zip(firsts, writers, strict=True):
        # A line that was cut off by the kill is not counted.
        acknowledged += map(int, (first + writer.communicate()[0]).split("\n")[:-1])
    return acknowledged


def is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def next_update(store: WorkingMemoryStore) -> int:
    """Update when the lock is free again, which a killed process held or waited for."""
    while True:
        with suppress(LockTimeoutError):
            return store.end_turn("c", "Hello", "greet").revision


def test_no_kill_loses_an_acknowledged_update_of_a_working_memory(tmp_path: Path) -> None:
    updates, last, path = 0, 1, tmp_path / "agent.db"
    options: dict[str, object] = {"storage": "sqlite", "path": str(path)}
    options |= {"lock_timeout": 1.0, "timeout": 10.0}
    with WorkingMemoryStore.initialize(options) as store:
        store.get_or_create("c", "user", "agent")
        for number in range(KILLS // WRITERS):
            acknowledged = generation(number, options)
            found = store.get("c")
            assert found is not None
            # Each number was given to one update, and all of them come after those before.
            assert len(set(acknowledged)) == len(acknowledged), "an update was lost"
            assert all(revision > last for revision in acknowledged)
            assert found.revision >= max(acknowledged, default=last), (
                "an acknowledged update is lost"
            )
            # At most one update of each process was not acknowledged any more.
            assert found.revision <= last + len(acknowledged) + WRITERS, "an update is there twice"
            last = next_update(store)
            updates += len(acknowledged)
            assert is_sound(path)

    assert updates >= KILLS
    report(
        f"killed, sqlite memory: {KILLS} kill -9 of {WRITERS} processes at once, {updates}"
        " acknowledged updates: 0 lost, 0 twice, integrity_check ok"
    )
