"""Processes that update a working memory in SQLite are killed with kill -9, four at once."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from jazzmine.errors import LockTimeoutError
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.faults.sizes import report, size
from tests.servers.programs import Program

WRITERS = 4
KILLS = size(5, 1000)  # the second with scripts/soak -k sqlite_killed
LONGEST_LIFE = 0.15


@pytest.fixture
def config(tmp_path: Path) -> dict[str, object]:
    return {"storage": "sqlite", "path": str(tmp_path / "agent.db")}


class Life:
    """A process that will be killed some time after its first acknowledged write.

    Attributes:
        acknowledged: the numbers that it printed after a write has returned.
    """

    def __init__(self, command: list[str], delay: float) -> None:
        self.acknowledged: list[int] = []
        self._process = Program([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True)
        self._delay = delay
        self._thread = threading.Thread(target=self._live)
        self._thread.start()

    def _live(self) -> None:
        with self._process as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            killer = threading.Timer(self._delay, process.kill)
            killer.start()
            rest = process.stdout.read()
            killer.join()
        # A line that was cut off by the kill is not counted.
        self.acknowledged = [int(line) for line in (first + rest).split("\n")[:-1]]

    def end(self) -> None:
        """Wait until it is killed."""
        self._thread.join()


def generation(number: int, command: Callable[[int], list[str]]) -> list[Life]:
    """Start as many writers as there are at once, and wait until all are killed."""
    chance = random.Random(4711 + number)
    lives = [
        Life(command(number * WRITERS + one), chance.uniform(0, LONGEST_LIFE))
        for one in range(WRITERS)
    ]
    for life in lives:
        life.end()
    return lives


def is_sound(config: dict[str, object]) -> bool:
    with closing(sqlite3.connect(str(config["path"]))) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def next_update(store: WorkingMemoryStore) -> int:
    """Update when the lock is free again, which a killed process held or waited for."""
    while True:
        with suppress(LockTimeoutError):
            return store.end_turn("c", "Hello", "greet").revision


def test_no_kill_loses_an_acknowledged_update_of_a_working_memory(
    config: dict[str, object],
) -> None:
    updates, last = 0, 1
    options = {**config, "lock_timeout": 1.0, "timeout": 10.0}
    with WorkingMemoryStore.initialize(options) as store:
        store.get_or_create("c", "user", "agent")
        for number in range(KILLS // WRITERS):
            lives = generation(
                number, lambda _: ["tests.backends.memory_holder", "count", json.dumps(options)]
            )
            acknowledged = [revision for life in lives for revision in life.acknowledged]
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
            assert is_sound(config)

    assert updates >= KILLS
    report(
        f"killed, sqlite memory: {KILLS} kill -9 of {WRITERS} processes at once, {updates}"
        " acknowledged updates: 0 lost, 0 twice, integrity_check ok"
    )
