"""A write of another process is read after the folder was flushed, and never if it is undone."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jazzmine.backends.json import database
from jazzmine.backends.json.lock import is_locked
from jazzmine.errors import LockTimeoutError
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation, message
from tests.faults.sizes import TOLERANCE

LOCK_TIMEOUT = 0.3

# Has renamed its new file, has a child of each kind, and is killed; the children do nothing.
KILLED_WHILE_IT_FLUSHES = """
import os, signal, subprocess, sys, threading, time
from jazzmine.sync.message_store import Message, MessageStore

flush = os.fsync

def have_children_and_be_killed(fd):
    if not os.path.isdir(f"/proc/self/fd/{fd}"):
        return flush(fd)
    children = []
    def fork():
        children.append(os.fork())
        if children[-1] == 0:
            time.sleep(60)
    if sys.argv[2] == "children":
        # Another thread forks, as that of a server does.
        forking = threading.Thread(target=fork)
        forking.start()
        while not children:
            time.sleep(0.001)
        sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
        children.append(subprocess.Popen(sleeping, close_fds=False).pid)
    print(*children, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

store = MessageStore.initialize({"path": sys.argv[1]})
os.fsync = have_children_and_be_killed
store.store_message(Message(id="m2", conversation_id="c1", user_id="u1", role="user",
                            original_content="x", timestamp=1))
"""


class Flush:
    """The flush of a folder, which ends when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self._end = threading.Event(), threading.Event()
        self._fails = False
        fsync = os.fsync

        def flush(fd: int) -> None:
            if os.path.isdir(f"/proc/self/fd/{fd}"):
                self.begun.set()
                assert self._end.wait(30)
                if self._fails:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
            fsync(fd)

        monkeypatch.setattr(os, "fsync", flush)

    def end(self, *, fails: bool) -> None:
        self._fails = self._fails or fails
        self._end.set()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages.json"


@pytest.fixture
def stored(path: Path) -> Path:
    """A file with one message."""
    with MessageStore.initialize({"path": str(path)}) as store:
        store.store_conversation(conversation("c1"))
        store.store_message(message("m1"))
    return path


@contextmanager
def flushing(
    path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[MessageStore], None]
) -> Iterator[tuple[Flush, Future[Any]]]:
    """A write that has renamed its file and flushes the folder.

    Stores share nothing in memory, so two of them are to each other like two processes.
    """
    with MessageStore.initialize({"path": str(path)}) as store, ThreadPoolExecutor(1) as thread:
        flush = Flush(monkeypatch)
        writing = thread.submit(write, store)
        assert flush.begun.wait(30)
        try:
            yield flush, writing
        finally:
            flush.end(fails=False)


def store_m2(store: MessageStore) -> None:
    store.store_message(message("m2"))


@pytest.mark.parametrize("fails", [False, True])
def test_a_read_waits_until_another_process_has_flushed_its_write_or_undone_it(
    stored: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    with (
        MessageStore.initialize({"path": str(stored)}) as reader,
        flushing(stored, monkeypatch, store_m2) as (flush, writing),
        ThreadPoolExecutor(1) as thread,
    ):
        reading = thread.submit(reader.get_message_by_id, "m2")
        time.sleep(0.1)
        assert not reading.done()
        flush.end(fails=fails)

        assert (reading.result() is None) == fails
        assert (writing.exception() is not None) == fails
        assert (reader.get_message_by_id("m2") is None) == fails


def test_a_store_that_is_opened_reads_no_write_that_is_undone(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with flushing(stored, monkeypatch, store_m2) as (flush, _), ThreadPoolExecutor(1) as thread:
        opening = thread.submit(MessageStore.initialize, {"path": str(stored)})
        time.sleep(0.1)
        assert not opening.done()
        flush.end(fails=True)

        with opening.result() as opened:
            assert opened.get_message_by_id("m1") is not None
            assert opened.get_message_by_id("m2") is None


def test_a_first_write_that_is_undone_leaves_no_file_and_is_not_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def store_c1(store: MessageStore) -> None:
        store.store_conversation(conversation("c1"))

    with (
        MessageStore.initialize({"path": str(path)}) as reader,
        flushing(path, monkeypatch, store_c1) as (flush, _),
        ThreadPoolExecutor(1) as thread,
    ):
        reading = thread.submit(reader.get_conversation_by_id, "c1")
        time.sleep(0.1)
        flush.end(fails=True)

        assert reading.result() is None
    assert not path.exists()


def test_a_write_that_is_undone_right_after_its_file_was_opened_is_not_read(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        MessageStore.initialize({"path": str(stored)}) as reader,
        flushing(stored, monkeypatch, store_m2) as (flush, writing),
    ):

        def wait_and_look(fd: int) -> bool:
            flush.end(fails=True)
            wait([writing], 30)
            return is_locked(fd)

        monkeypatch.setattr(database, "is_locked", wait_and_look)

        assert reader.get_message_by_id("m2") is None


def test_a_write_that_is_not_flushed_in_time_is_an_error_that_names_the_file(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"path": str(stored), "lock_timeout": LOCK_TIMEOUT}
    with (
        MessageStore.initialize(options) as reader,
        flushing(stored, monkeypatch, store_m2),
        ThreadPoolExecutor(4) as threads,
    ):
        began = time.monotonic()
        reading = [threads.submit(reader.get_message_by_id, "m1") for _ in range(4)]

        for each in reading:
            with pytest.raises(LockTimeoutError, match=str(stored)):
                each.result()
        assert LOCK_TIMEOUT <= time.monotonic() - began < LOCK_TIMEOUT + 0.5 + TOLERANCE
    with MessageStore.initialize(options) as reader:
        assert reader.get_message_by_id("m2") is not None


@pytest.mark.parametrize("children", ["children", "no children"])
def test_a_write_whose_process_was_killed_before_it_was_flushed_is_read(
    stored: Path, children: str
) -> None:
    script = [sys.executable, "-W", "ignore", "-c", KILLED_WHILE_IT_FLUSHES, str(stored), children]
    with MessageStore.initialize({"path": str(stored), "lock_timeout": LOCK_TIMEOUT}) as reader:
        writer = subprocess.Popen(script, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        left = [int(pid) for pid in writer.stdout.readline().split()]
        writer.stdout.close()
        try:
            assert writer.wait(30) == -signal.SIGKILL
            assert len(left) == (2 if children == "children" else 0)

            assert reader.get_message_by_id("m2") is not None
        finally:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
