"""Several processes on one SQLite database: stopped, forked, and many at once."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from jazzmine.backends.sqlite import connection as connections
from jazzmine.backends.sqlite.migrations import migrations
from jazzmine.core import message_store as async_messages
from jazzmine.errors import LockTimeoutError
from jazzmine.sync.message_store import MessageStore
from tests.backends.sqlite_stores import execute
from tests.behaviour.samples import conversation, message
from tests.faults.sizes import TOLERANCE, report, size
from tests.servers.programs import Program

HOLD = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(60)
"""


OPEN = """
import sys
from jazzmine.sync.message_store import MessageStore
sys.stdin.read()
with MessageStore.initialize({"storage": "sqlite", "path": sys.argv[1]}) as store:
    store.ping()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with MessageStore.initialize(config_of(tmp_path / "messages.db")) as store:
        store.store_conversation(conversation("c1"))
    return tmp_path / "messages.db"


def config_of(path: Path, **options: object) -> dict[str, object]:
    return {"storage": "sqlite", "path": str(path), **options}


def writer(path: Path, api: str, name: str, turns: int, first: int = 0) -> subprocess.Popen[str]:
    arguments = [api, str(path), name, str(turns), str(first)]
    return Program(
        [sys.executable, "-m", "tests.backends.sqlite_writer", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )


def is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# Many at once


def test_eight_processes_lose_nothing(path: Path) -> None:
    count = size(32, 500)
    processes = [
        writer(path, "async" if number % 2 else "sync", f"p{number}", count) for number in range(8)
    ]
    for process in processes:
        assert process.communicate(timeout=300)[0].count("\n") == count
    assert [process.returncode for process in processes] == [0] * 8

    with MessageStore.initialize(config_of(path)) as store:
        stored = {one.id for one in store.iter_messages("c1")}
    assert len(stored) == 8 * count * 2
    assert is_sound(path)
    report(f"sqlite: 8 processes x {count} turns: none lost")


def test_a_read_sees_what_another_process_wrote(path: Path) -> None:
    with MessageStore.initialize(config_of(path)) as store:
        assert store.get_messages_by_conversation_id("c1") == []

        assert writer(path, "sync", "other", 2).communicate(timeout=240)[0] == "0\n1\n"

        assert len(store.get_messages_by_conversation_id("c1")) == 4


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


def test_calls_at_once_wait_for_a_lock_together_and_not_one_after_the_other(path: Path) -> None:
    with (
        MessageStore.initialize(config_of(path, timeout=1)) as store,
        lock_held(path),
        ThreadPoolExecutor(14) as threads,
    ):
        began = time.monotonic()
        calls = [threads.submit(store.store_message, message(f"m{n}")) for n in range(14)]
        for call in calls:
            with pytest.raises(LockTimeoutError):
                call.result()

        assert time.monotonic() - began < 1 + 0.5 + TOLERANCE


def test_a_store_opens_while_another_process_writes(path: Path) -> None:
    with lock_held(path), MessageStore.initialize(config_of(path, timeout=5)) as store:
        assert store.get_conversation_by_id("c1") == conversation("c1")


def test_a_new_database_that_is_locked_ends_opening_in_time(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    path.touch()
    with lock_held(path), pytest.raises(LockTimeoutError, match=r"new\.db"):
        MessageStore.initialize(config_of(path, timeout=0.3))


async def test_the_event_loop_runs_on_while_a_write_waits(path: Path) -> None:
    config = config_of(path, timeout=1.0)
    async with await async_messages.MessageStore.initialize(config) as store:
        with lock_held(path):
            write = asyncio.ensure_future(store.store_message(message("m1")))
            ticks = 0
            while not write.done():
                await asyncio.sleep(0.01)
                assert await store.get_message_by_id("m1") is None
                ticks += 1
            with pytest.raises(LockTimeoutError):
                await write
        assert ticks > 10


async def test_a_cancelled_write_that_waits_for_a_lock_is_withdrawn(path: Path) -> None:
    async with await async_messages.MessageStore.initialize(config_of(path)) as store:
        with lock_held(path):
            write = asyncio.ensure_future(store.store_message(message("m1")))
            await asyncio.sleep(0.1)
            write.cancel()
            with pytest.raises(asyncio.CancelledError):
                await write
        await store.store_message(message("m2"))
        assert [one.id for one in await store.get_messages_by_conversation_id("c1")] == ["m2"]


# Forks


def read_and_write(store: MessageStore, name: str, count: int) -> None:
    for number in range(count):
        store.store_message(message(f"{name}-{number}"))
        assert store.get_message_by_id(f"{name}-{number}") is not None


def test_no_process_inherits_a_connection(path: Path) -> None:
    with MessageStore.initialize(config_of(path)) as store:
        store.store_message(message("m1"))
        assert store.get_message_by_id("m1") is not None
        child = os.fork()
        if not child:
            inherited = [
                os.readlink(f"/proc/self/fd/{fd}")
                for fd in os.listdir("/proc/self/fd")
                if os.path.lexists(f"/proc/self/fd/{fd}")
            ]
            driven = [one for one in list(connections._connections) if vars(one).get("_driver")]
            os._exit(any(name.startswith(str(path)) for name in inherited) or bool(driven))
        assert os.waitpid(child, 0)[1] == 0
        assert store.get_message_by_id("m1") is not None


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


def test_forks_among_threads_that_write_hang_nobody(path: Path) -> None:
    stop = threading.Event()
    counts = [0] * 4
    with MessageStore.initialize(config_of(path, synchronous="normal")) as store:

        def write(number: int) -> None:
            while not stop.is_set():
                store.store_message(message(f"t{number}-{counts[number]}"))
                store.get_immediate_context("c1", 3)
                counts[number] += 1

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        fork = multiprocessing.get_context("fork")
        for number in range(size(15, 200)):
            child = fork.Process(target=read_and_write, args=(store, f"child-{number}", 2))
            child.start()
            child.join(240)
            assert child.exitcode == 0
        stop.set()
        for thread in threads:
            thread.join(240)

        forked = size(15, 200) * 2
        assert len(store.get_messages_by_conversation_id("c1")) == sum(counts) + forked
    assert is_sound(path)


def test_twelve_processes_open_a_new_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "messages.db"
    for _ in range(size(1, 3)):
        processes = [
            Program([sys.executable, "-c", OPEN, str(path)], stdin=subprocess.PIPE)
            for _ in range(12)
        ]
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        assert [process.wait(240) for process in processes] == [0] * 12

        versions = execute(path, "SELECT component, version FROM jazzmine_migrations")
        assert versions == [("messages", one.version) for one in migrations("messages")]
        path.unlink()
