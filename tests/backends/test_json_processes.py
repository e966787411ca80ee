"""Several processes and many threads on one JSON file."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jazzmine.core import message_store as async_messages
from jazzmine.errors import IntegrityError
from jazzmine.sync.message_store import JSONMessageStore, MessageStore
from tests.behaviour.samples import conversation, message
from tests.servers.programs import Program, run_python
from tests.servers.redis import eventually

STORE_MANY = """
import sys
from jazzmine.sync.message_store import Message, MessageStore
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with MessageStore.initialize({"path": path, "fsync": False}) as store:
    for number in range(count):
        store.store_message(Message(
            id=f"{name}-{number}", conversation_id="c1", user_id="u1", role="user",
            original_content="x", timestamp=number))
    assert len(store.get_messages_by_conversation_id("c1")) >= count
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages.json"


@pytest.fixture
def store(path: Path) -> Iterator[JSONMessageStore]:
    opened = MessageStore.initialize({"path": str(path), "fsync": False})
    assert isinstance(opened, JSONMessageStore)
    with opened:
        opened.store_conversation(conversation("c1"))
        yield opened


def test_four_processes_lose_nothing_in_one_file(path: Path, store: JSONMessageStore) -> None:
    processes = [
        Program([sys.executable, "-c", STORE_MANY, str(path), name, "100"]) for name in "abcd"
    ]
    assert [process.wait(240) for process in processes] == [0, 0, 0, 0]

    messages = store.get_messages_by_conversation_id("c1")

    assert len({m.id for m in messages}) == 400


def test_a_read_sees_what_another_process_wrote(path: Path, store: JSONMessageStore) -> None:
    assert store.get_messages_by_conversation_id("c1") == []

    run_python([sys.executable, "-c", STORE_MANY, str(path), "a", "2"], check=True)

    assert [m.id for m in store.get_messages_by_conversation_id("c1")] == ["a-0", "a-1"]


def test_a_read_sees_an_edit_by_hand(path: Path, store: JSONMessageStore) -> None:
    store.store_message(message("m1", original_content="before"))

    path.write_bytes(path.read_bytes().replace(b"before", b"behind"))

    stored = store.get_message_by_id("m1")
    assert stored is not None
    assert stored.original_content == "behind"


def test_a_read_sees_two_writes_that_leave_the_same_size_and_time(
    path: Path, store: JSONMessageStore
) -> None:
    text = "text 0"
    store.store_message(message("m1", original_content=text))
    time, new = path.stat().st_mtime_ns, path.with_name("new")

    for number in range(1, 5):
        # The second file could get the number of the first one, which was read.
        for other in "before", f"text {number}":
            new.write_bytes(path.read_bytes().replace(text.encode(), other.encode()))
            os.utime(new, ns=(time, time))
            new.replace(path)
            text = other

        stored = store.get_message_by_id("m1")
        assert stored is not None
        assert stored.original_content == text


def test_a_read_sees_that_lines_were_taken_out_and_moved(
    path: Path, store: JSONMessageStore
) -> None:
    store.store_messages(message(f"m{n}", timestamp=1) for n in range(5))
    lines = path.read_text().splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if '"m0"' in line)
    lines[first], lines[first + 2] = lines[first + 2], lines[first]
    del lines[first + 1]

    path.write_text("".join(lines))

    ids = [m.id for m in store.get_messages_by_conversation_id("c1")]
    assert ids == ["m2", "m0", "m3", "m4"]


def test_a_file_that_is_removed_is_an_empty_store(path: Path, store: JSONMessageStore) -> None:
    path.unlink()

    assert store.get_conversation_by_id("c1") is None


def test_writes_that_arrive_during_a_flush_share_the_next(
    path: Path, store: JSONMessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes = []
    replace = os.replace

    def count(source: str, target: str) -> None:
        flushes.append(target)
        replace(source, target)

    monkeypatch.setattr(os, "replace", count)
    together = threading.Barrier(32)

    def write(number: int) -> None:
        together.wait()
        store.store_message(message(f"m{number}"))

    with ThreadPoolExecutor(32) as threads:
        list(threads.map(write, range(32)))

    assert len(store.get_messages_by_conversation_id("c1")) == 32
    assert len(flushes) < 32


async def test_fifty_writes_at_once_take_two_flushes_at_most(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    flushes = []
    replace = os.replace

    def count(source: str, target: str) -> None:
        flushes.append(target)
        replace(source, target)

    config = {"path": str(path), "fsync": False}
    async with await async_messages.MessageStore.initialize(config) as store:
        await store.store_conversation(conversation("c1"))
        monkeypatch.setattr(os, "replace", count)

        await asyncio.gather(*(store.store_message(message(f"m{n}")) for n in range(50)))

        assert len(await store.get_messages_by_conversation_id("c1")) == 50
    assert 1 <= len(flushes) <= 2


def test_a_prune_of_many_conversations_writes_the_file_a_few_times(
    path: Path, store: JSONMessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"old{n}" for n in range(300)]
    for name in names:
        store.store_conversation(conversation(name))
    store.store_messages([message(f"m {name}", conversation_id=name) for name in names])
    written = []
    replace = os.replace

    def count(source: str, target: str) -> None:
        written.append(target)
        replace(source, target)

    monkeypatch.setattr(os, "replace", count)

    assert store.prune_conversations(before=2**62, limit=300) == 300

    assert len(written) < 10


@pytest.mark.parametrize("fsync", [True, False])
def test_a_store_that_is_dropped_leaves_no_file_open(path: Path, fsync: bool) -> None:
    def use() -> None:
        store = MessageStore.initialize({"path": str(path), "fsync": fsync})
        store.store_conversation(conversation("c1"))

    use()

    def has_no_file_open() -> bool:
        gc.collect()
        links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.exists()]
        return not any(link.startswith(str(path.parent)) for link in links)

    assert eventually(has_no_file_open)


def test_one_bad_write_of_a_shared_flush_fails_alone(path: Path, store: JSONMessageStore) -> None:
    def write(number: int) -> str:
        conversation_id = "c1" if number % 2 else "nobody's"
        try:
            store.store_message(message(f"m{number}", conversation_id=conversation_id))
        except IntegrityError:
            return "refused"
        return "stored"

    with ThreadPoolExecutor(16) as threads:
        outcomes = list(threads.map(write, range(16)))

    assert outcomes == ["refused", "stored"] * 8
    assert len(store.get_messages_by_conversation_id("c1")) == 8


def test_children_write_while_threads_of_their_parent_write(
    path: Path, store: JSONMessageStore
) -> None:
    ends = threading.Event()

    def write_on(number: int) -> None:
        for part in itertools.count():
            store.store_message(message(f"m{number}-{part}"))
            if ends.is_set():
                return

    with ThreadPoolExecutor(2) as threads, warnings.catch_warnings():
        # Python warns of a fork with threads; servers and workers fork nevertheless.
        warnings.simplefilter("ignore", DeprecationWarning)
        writing = threads.map(write_on, range(2))
        for number in range(5):
            child = os.fork()
            if child == 0:
                os._exit(_store_one(store, f"from child {number}"))
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
        ends.set()
        list(writing)

    stored = {one.id for one in store.get_messages_by_conversation_id("c1")}
    assert stored >= {f"from child {number}" for number in range(5)}


def _store_one(store: JSONMessageStore, name: str) -> int:
    try:
        store.store_message(message(name))
    except BaseException:
        return 1
    return 0
