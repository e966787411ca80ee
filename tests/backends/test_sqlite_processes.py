"""Several processes on one SQLite database: stopped, forked, and many at once."""

from __future__ import annotations

import multiprocessing
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from jazzmine.errors import LockTimeoutError
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation, message
from tests.servers.programs import Program

HOLD = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with MessageStore.initialize(config_of(tmp_path / "messages.db")) as store:
        store.store_conversation(conversation("c1"))
    return tmp_path / "messages.db"


def config_of(path: Path, **options: object) -> dict[str, object]:
    return {"storage": "sqlite", "path": str(path), **options}


def is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# Locks of other processes


@contextmanager
def lock_held(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, stopped while it holds the database's write lock."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with Program(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            process.send_signal(signal.SIGSTOP)
            yield process
        finally:
            process.kill()


def test_a_lock_of_a_stopped_process_ends_writes_in_time_and_no_reads(path: Path) -> None:
    with MessageStore.initialize(config_of(path, timeout=0.3)) as store, lock_held(path) as holder:
        began = time.monotonic()
        with pytest.raises(LockTimeoutError, match=r"messages.db was not free within 0\.3 s"):
            store.store_message(message("m1"))
        assert time.monotonic() - began >= 0.3

        assert store.get_message_by_id("m1") is None
        assert store.get_messages_by_conversation_id("c1") == []
        holder.kill()
        holder.wait()
        store.store_message(message("m1"))
        assert store.get_message_by_id("m1") == message("m1")


def test_a_new_database_that_is_locked_ends_opening_in_time(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    path.touch()
    with lock_held(path), pytest.raises(LockTimeoutError, match=r"new\.db"):
        MessageStore.initialize(config_of(path, timeout=0.3))


# Many processes at once

OPEN = """
import sys
from jazzmine.sync import MessageStore, WorkingMemoryStore
sys.stdin.read()
kinds = [MessageStore, WorkingMemoryStore]
for kind in kinds if sys.argv[2] == "0" else reversed(kinds):
    with kind.initialize({"storage": "sqlite", "path": sys.argv[1]}) as store:
        store.ping()
"""


def test_twelve_processes_open_both_kinds_in_a_new_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    commands = [[sys.executable, "-c", OPEN, str(path), str(number % 2)] for number in range(12)]
    processes = [Program(command, stdin=subprocess.PIPE, text=True) for command in commands]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()

    assert [process.wait(240) for process in processes] == [0] * 12
    assert is_sound(path)


# Forks


def read_and_write(store: MessageStore, name: str, count: int) -> None:
    for number in range(count):
        store.store_message(message(f"{name}-{number}"))
        assert store.get_message_by_id(f"{name}-{number}") is not None


def test_a_parent_that_closes_its_store_takes_nothing_from_its_children(path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    store = MessageStore.initialize(config_of(path))
    store.store_message(message("before"))
    closed = fork.Event()

    def work(name: str) -> None:
        read_and_write(store, f"{name}-early", 5)
        closed.wait(30)
        read_and_write(store, f"{name}-late", 5)

    children = [fork.Process(target=work, args=(name,)) for name in "abcd"]
    for child in children:
        child.start()
    store.close()
    closed.set()
    for child in children:
        child.join(240)

    assert [child.exitcode for child in children] == [0] * 4
    with MessageStore.initialize(config_of(path)) as again:
        assert len(again.get_messages_by_conversation_id("c1")) == 1 + 4 * 10
    assert is_sound(path)
