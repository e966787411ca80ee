"""The lock of a JSON file: how long a call waits for it, and that it ends with its process."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from jazzmine.backends.json import database, durable_file
from jazzmine.backends.json.lock import FileMutex
from jazzmine.core import message_store as core
from jazzmine.errors import LockTimeoutError
from jazzmine.sync.message_store import JSONMessageStore, MessageStore
from tests.behaviour.samples import conversation, message
from tests.faults.sizes import TOLERANCE

LOCK_TIMEOUT = 1.0
LATE = 0.5 + TOLERANCE

# Holds the lock, starts a child of each kind, and is killed; the children do nothing.
HELD_BY_A_KILLED_PARENT = """
import asyncio, multiprocessing, os, signal, subprocess, sys, threading, time
from pathlib import Path

api, path = sys.argv[1:]

def have_children(store):
    with store.backend.client.database._mutex.attempt():
        pids = [os.fork()]
        if pids[0] == 0:
            time.sleep(60)
            os._exit(0)
        forking = multiprocessing.get_context("fork")
        process = forking.Process(target=time.sleep, args=(60,))
        process.start()
        sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
        pids += [process.pid, subprocess.Popen(sleeping).pid]
        pids.append(subprocess.Popen(sleeping, close_fds=False).pid)
        pids.append(subprocess.Popen(sleeping, preexec_fn=lambda: None).pid)
        print(*pids, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

if api == "sync":
    from jazzmine.sync.message_store import MessageStore
    have_children(MessageStore.initialize({"path": path}))
else:
    from jazzmine.core.message_store import MessageStore
    async def main():
        have_children(await MessageStore.initialize({"path": path}))
    asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages.json"


@pytest.fixture
def config(path: Path) -> dict[str, object]:
    return {"path": str(path), "fsync": False, "lock_timeout": LOCK_TIMEOUT}


@pytest.fixture
def store(config: dict[str, object]) -> Iterator[JSONMessageStore]:
    with MessageStore.initialize(config) as opened:
        assert isinstance(opened, JSONMessageStore)
        opened.store_conversation(conversation("c1"))
        yield opened


@contextmanager
def held_elsewhere(path: Path) -> Iterator[Callable[[], None]]:
    """Hold the lock as another process would; the value releases it before the block ends."""
    mutex = FileMutex(str(path))
    with mutex.attempt():
        yield mutex.close
    mutex.close()


def seconds_until_refused(call: Callable[[], Any]) -> float:
    began = time.monotonic()
    with pytest.raises(LockTimeoutError):
        call()
    return time.monotonic() - began


# The owner of the lock


@pytest.mark.parametrize("api", ["sync", "async"])
def test_children_that_do_nothing_do_not_keep_the_lock_of_a_killed_parent(
    path: Path, store: JSONMessageStore, api: str
) -> None:
    script = [sys.executable, "-W", "ignore", "-c", HELD_BY_A_KILLED_PARENT, api, str(path)]
    parent = subprocess.Popen(script, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    children = [int(pid) for pid in parent.stdout.readline().split()]
    parent.stdout.close()
    try:
        assert parent.wait(10) == -signal.SIGKILL
        assert len(children) == 5

        store.store_message(message("m1"))
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("leaves_the_block", [False, True])
def test_a_child_leaves_the_lock_to_its_parent(path: Path, leaves_the_block: bool) -> None:
    mutex = FileMutex(str(path))
    with ExitStack() as block:
        block.enter_context(mutex.attempt())
        child = os.fork()
        if child == 0:
            if leaves_the_block:
                block.close()
            os._exit(0)
        os.waitpid(child, 0)

        assert not _is_free(path)
    assert _is_free(path)
    mutex.close()


def _is_free(path: Path) -> bool:
    other = FileMutex(str(path))
    with other.attempt() as held:
        pass
    other.close()
    return held


# How long a call waits


def test_a_thread_that_came_during_anothers_wait_waits_no_longer_than_its_time(
    path: Path, store: JSONMessageStore
) -> None:
    def store_later(number: int) -> float:
        time.sleep(number * 0.2)
        return seconds_until_refused(lambda: store.store_message(message(f"m{number}")))

    with held_elsewhere(path), ThreadPoolExecutor(8) as threads:
        waited = list(threads.map(store_later, range(8)))

    assert max(waited) < LOCK_TIMEOUT + LATE, waited
    assert min(waited) >= LOCK_TIMEOUT


async def test_a_task_that_came_during_anothers_wait_waits_no_longer_than_its_time(
    path: Path, config: dict[str, object]
) -> None:
    async with await core.MessageStore.initialize(config) as opened:
        await opened.store_conversation(conversation("c1"))

        async def store_later(number: int) -> float:
            await asyncio.sleep(number * 0.2)
            began = time.monotonic()
            with pytest.raises(LockTimeoutError):
                await opened.store_message(message(f"m{number}"))
            return time.monotonic() - began

        with held_elsewhere(path):
            waited = await asyncio.gather(*map(store_later, range(8)))

    assert max(waited) < LOCK_TIMEOUT + LATE, waited
    assert min(waited) >= LOCK_TIMEOUT


def test_a_thread_whose_time_is_not_up_is_stored_when_the_lock_is_free(
    path: Path, store: JSONMessageStore
) -> None:
    with held_elsewhere(path) as release, ThreadPoolExecutor(2) as threads:
        early = threads.submit(store.store_message, message("early"))
        time.sleep(LOCK_TIMEOUT / 2)
        late = threads.submit(store.store_message, message("late"))
        assert isinstance(early.exception(), LockTimeoutError)
        release()
        late.result()

    assert store.get_message_by_id("early") is None
    assert store.get_message_by_id("late") is not None


async def test_a_task_whose_time_is_not_up_is_stored_when_the_lock_is_free(
    path: Path, config: dict[str, object]
) -> None:
    async with await core.MessageStore.initialize(config) as opened:
        await opened.store_conversation(conversation("c1"))
        with held_elsewhere(path) as release:
            first = asyncio.ensure_future(opened.store_message(message("first")))
            await asyncio.sleep(LOCK_TIMEOUT / 4)
            # These two calls share a flush, and have different remaining times.
            early = asyncio.ensure_future(opened.store_message(message("early")))
            await asyncio.sleep(LOCK_TIMEOUT / 2)
            late = asyncio.ensure_future(opened.store_message(message("late")))
            await asyncio.wait([first, early])
            release()
            await late

        assert isinstance(first.exception(), LockTimeoutError)
        assert isinstance(early.exception(), LockTimeoutError)
        assert await opened.get_message_by_id("late") is not None
        assert await opened.get_message_by_id("early") is None


# Calls that are cancelled


async def test_a_call_cancelled_while_it_waits_for_the_lock_is_never_stored(
    path: Path, config: dict[str, object]
) -> None:
    async with await core.MessageStore.initialize(config) as opened:
        await opened.store_conversation(conversation("c1"))
        with held_elsewhere(path):
            cancelled = asyncio.ensure_future(opened.store_message(message("m1")))
            other = asyncio.ensure_future(opened.store_message(message("m2")))
            await asyncio.sleep(0.1)
            cancelled.cancel()
            await asyncio.wait([cancelled])
        await other

        assert await opened.get_message_by_id("m1") is None
        assert await opened.get_message_by_id("m2") is not None


async def test_a_store_whose_only_call_is_cancelled_waits_for_the_lock_no_longer(
    path: Path, config: dict[str, object]
) -> None:
    with held_elsewhere(path):
        opened = await core.MessageStore.initialize({**config, "lock_timeout": 30})
        cancelled = asyncio.ensure_future(opened.store_conversation(conversation("c1")))
        await asyncio.sleep(0.1)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        await asyncio.wait_for(opened.close(), 10)


@pytest.fixture
def slow_flush(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Each write pauses before its file is renamed; the value is set when one has paused."""
    replace, begun = os.replace, threading.Event()

    def replace_slowly(source: str, target: str) -> None:
        begun.set()
        time.sleep(0.3)
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace_slowly)
    return begun


async def test_a_cancelled_change_takes_no_effect_after_a_later_call_has_returned(
    config: dict[str, object], slow_flush: threading.Event
) -> None:
    async with await core.MessageStore.initialize(config) as opened:
        await opened.store_conversation(conversation("c1"))
        slow_flush.clear()
        cancelled = asyncio.ensure_future(opened.store_message(message("m1")))
        await asyncio.to_thread(slow_flush.wait, 10)
        cancelled.cancel()
        await asyncio.wait([cancelled])

        soon = await opened.get_message_by_id("m1")
        listed = await opened.get_messages_by_conversation_id("c1")
        await asyncio.sleep(0.6)

        assert cancelled.cancelled()
        assert await opened.get_message_by_id("m1") == soon
        assert await opened.get_messages_by_conversation_id("c1") == listed


class InterruptError(BaseException):
    """Raised by a signal handler in the main thread."""


def test_an_interrupted_change_takes_no_effect_after_a_later_call_has_returned(
    store: JSONMessageStore, slow_flush: threading.Event
) -> None:
    def interrupt(*_: object) -> None:
        raise InterruptError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with ThreadPoolExecutor(2) as threads:
            first = threads.submit(store.store_message, message("m1"))
            assert slow_flush.wait(10)
            # While the first message is written, this thread and another one wait for the next
            # flush. The other thread makes it, because it came first.
            second = threads.submit(store.store_message, message("m2"))
            signal.setitimer(signal.ITIMER_REAL, 0.45)
            with pytest.raises(InterruptError):
                store.store_message(message("m3"))
            soon = store.get_message_by_id("m3")
            first.result()
            second.result()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    assert store.get_message_by_id("m3") == soon


# Calls that share a flush


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def outcomes_of(results: Iterable[Any]) -> list[str]:
    return [type(result).__name__ if result is not None else "stored" for result in results]


async def test_a_task_whose_message_the_disk_cannot_take_fails_alone(
    path: Path, config: dict[str, object]
) -> None:
    async with await core.MessageStore.initialize(config) as opened:
        await opened.store_conversation(conversation("c1"))
        with files_no_larger_than(100_000):
            contents = ["x" * (200_000 if number == 3 else 1) for number in range(6)]
            results = await asyncio.gather(
                *(
                    opened.store_message(message(f"m{number}", original_content=content))
                    for number, content in enumerate(contents)
                ),
                return_exceptions=True,
            )

        assert outcomes_of(results) == ["stored"] * 3 + ["OSError"] + ["stored"] * 2
        stored = await opened.get_messages_by_conversation_id("c1")
        assert [each.id for each in stored] == ["m0", "m1", "m2", "m4", "m5"]


def test_a_thread_whose_message_the_disk_cannot_take_fails_alone(
    path: Path, store: JSONMessageStore
) -> None:
    def write(number: int) -> None:
        content = "x" * (200_000 if number % 4 == 3 else 1)
        store.store_message(message(f"m{number}", original_content=content))

    with files_no_larger_than(100_000), ThreadPoolExecutor(16) as threads:
        with held_elsewhere(path):
            work = [threads.submit(write, number) for number in range(16)]
            time.sleep(0.1)
        results = [each.exception() for each in work]

    assert outcomes_of(results) == (["stored"] * 3 + ["OSError"]) * 4
    assert len(store.get_messages_by_conversation_id("c1")) == 12


def test_a_full_disk_costs_many_threads_one_attempt_each(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0

    def replace_file(*arguments: Any, **options: Any) -> Any:
        nonlocal attempts
        attempts += 1
        return durable_file.replace_file(*arguments, **options)

    monkeypatch.setattr(database, "replace_file", replace_file)
    store = MessageStore.initialize({"path": str(path), "lock_timeout": 60})
    store.store_conversation(conversation("c1"))

    def write(number: int) -> None:
        store.store_message(message(f"m{number}", original_content="x" * 1000))

    with files_no_larger_than(20_000), ThreadPoolExecutor(300) as threads:
        with held_elsewhere(path):
            work = [threads.submit(write, number) for number in range(300)]
            time.sleep(0.1)
        results = [each.exception() for each in work]

    stored = len(store.get_messages_by_conversation_id("c1"))
    store.close()
    assert 0 < stored < 20
    assert sorted(outcomes_of(results)) == ["OSError"] * (300 - stored) + ["stored"] * stored
    assert attempts <= 2 * 300


async def test_a_message_is_stored_with_the_conversation_of_its_flush_or_not_at_all(
    path: Path, config: dict[str, object]
) -> None:
    async with await core.MessageStore.initialize(config) as opened:
        with files_no_larger_than(100_000):
            results = await asyncio.gather(
                opened.store_conversation(conversation("c1", title="x" * 200_000)),
                opened.store_message(message("m1")),
                opened.store_conversation(conversation("c2")),
                opened.store_message(message("m2", conversation_id="c2")),
                return_exceptions=True,
            )

        assert outcomes_of(results) == ["OSError", "IntegrityError", "stored", "stored"]
        assert await opened.get_message_by_id("m1") is None
        assert await opened.get_message_by_id("m2") is not None
