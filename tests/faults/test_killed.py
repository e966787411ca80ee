"""A process that writes is killed with kill -9 repeatedly, and nothing is lost."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation
from tests.faults.sizes import report, size
from tests.servers.programs import Program

KILLS = size(15, 500)
LONGEST_LIFE = 0.012


class KilledWriters:
    """Writers to one file, each of which is killed, and the writes that they acknowledged."""

    def __init__(self, path: Path, process: subprocess.Popen[str]) -> None:
        self._path = path
        self._process = process
        self._random = random.Random(4711)
        self.acknowledged: dict[str, int] = {}
        self.writes = 0

    def kill(self, count: int) -> None:
        """Start and kill `count` writers, one after another."""
        for life in range(count):
            self._kill_one(life)

    def _kill_one(self, life: int) -> None:
        """Start and kill a writer, and fail unless the file has all acknowledged writes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        delay = self._random.uniform(0, LONGEST_LIFE)
        self._process.stdin.write(f"{life * 100_000 + 1} {delay}\n")
        self._process.stdin.flush()
        for line in iter(self._process.stdout.readline, "killed\n"):
            message_id, number = line.split()
            self.acknowledged[message_id] = int(number)
            self.writes += 1
        self._check()

    def _check(self) -> None:
        if self._path.suffix == ".db":
            with closing(sqlite3.connect(self._path)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        else:
            try:
                json.loads(self._path.read_bytes())
            except ValueError:
                raise AssertionError("an unreadable file") from None
        with MessageStore.initialize(self._path) as store:
            for message_id, number in self.acknowledged.items():
                stored = store.get_message_by_id(message_id)
                found = stored.episode_id if stored else 0
                assert found >= number, f"lost the acknowledged write {number} of {message_id}"


@contextmanager
def kill_harness(path: Path, api: str, broken: str = "") -> Iterator[KilledWriters]:
    with MessageStore.initialize(path) as store:
        store.store_conversation(conversation("c1"))
    command = [sys.executable, "-m", "tests.faults.kill_harness", str(path), api, broken]
    pipe = subprocess.PIPE
    with Program(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield KilledWriters(path, process)


@pytest.mark.parametrize("api", ["async", "sync"])
@pytest.mark.parametrize("name", ["messages.json", "messages.db"])
def test_no_kill_loses_an_acknowledged_write_or_leaves_half_a_file(
    tmp_path: Path, name: str, api: str
) -> None:
    with kill_harness(tmp_path / name, api) as writers:
        writers.kill(KILLS)

        assert writers.writes >= KILLS
        report(
            f"killed, {name}, {api}: {KILLS} kill -9, {writers.writes} acknowledged writes:"
            " 0 unreadable files, 0 writes lost"
        )


@pytest.mark.parametrize(
    ("broken", "found"), [("in place", "an unreadable file"), ("early", "lost the acknowledged")]
)
def test_a_writer_that_breaks_its_promise_is_found_out(
    tmp_path: Path, broken: str, found: str
) -> None:
    with (
        kill_harness(tmp_path / "messages.json", "sync", broken) as writers,
        pytest.raises(AssertionError, match=found),
    ):
        writers.kill(100)
