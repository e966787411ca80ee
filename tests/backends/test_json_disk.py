"""The JSON store with disks, folders and locks that fail, and beside others that write."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jazzmine.core import message_store as async_messages
from jazzmine.errors import LockTimeoutError
from jazzmine.sync.message_store import JSONMessageStore, MessageStore
from tests.behaviour.samples import conversation, message
from tests.servers.programs import Program

HOLD_THE_LOCK = """
import sys, time
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages.json"


@pytest.fixture
def store(path: Path) -> Iterator[JSONMessageStore]:
    opened = MessageStore.initialize({"path": str(path), "lock_timeout": 0.3})
    assert isinstance(opened, JSONMessageStore)
    with opened:
        opened.store_conversation(conversation("c1"))
        opened.store_message(message("m1"))
        yield opened


def test_a_store_whose_folder_vanishes_raises_until_it_is_back(
    store: JSONMessageStore, path: Path
) -> None:
    kept = path.read_bytes()
    shutil.rmtree(path.parent)

    for _ in range(2):
        with pytest.raises(FileNotFoundError, match=str(path.parent)):
            store.get_message_by_id("m1")
        with pytest.raises(FileNotFoundError, match=str(path.parent)):
            store.store_message(message("m2"))

    path.parent.mkdir()
    path.write_bytes(kept)
    assert store.get_message_by_id("m1") is not None
    store.store_message(message("m2"))
    assert store.get_message_by_id("m2") is not None


def test_the_replacement_of_a_file_that_is_read_on_windows_is_tried_again(
    store: JSONMessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, attempts = os.replace, itertools.count()

    def refuse_at_first(source: str, target: str) -> None:
        if next(attempts) < 2:
            raise PermissionError(errno.EACCES, "the file is in use", target)
        replace(source, target)

    with monkeypatch.context() as windows:
        windows.setattr(os, "replace", refuse_at_first)
        windows.setattr("jazzmine.backends.json.file._PAUSES", (0.0, 0.0))
        store.store_message(message("m2"))

    assert next(attempts) == 3
    assert store.get_message_by_id("m2") is not None


def test_a_lock_held_by_a_stuck_process_ends_in_an_error_that_names_it(
    store: JSONMessageStore, path: Path
) -> None:
    holder = Program([sys.executable, "-c", HOLD_THE_LOCK, f"{path}.lock"], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()

        with pytest.raises(LockTimeoutError, match=rf"{path} was not free within 0.3 s"):
            store.store_message(message("m2"))

        assert store.get_message_by_id("m1") is not None
        assert store.get_message_by_id("m2") is None
    finally:
        holder.kill()
        holder.communicate()
    store.store_message(message("m2"))


def test_the_temporary_file_of_a_killed_process_is_erased_with_a_user(
    path: Path, store: JSONMessageStore
) -> None:
    left = Path(f"{path}.tmp")
    left.write_text('{"id": "m9", "user_id": "ann"')

    store.erase_user("ann")

    assert not left.exists()


def test_a_link_laid_where_the_new_file_goes_is_not_followed(
    path: Path, store: JSONMessageStore, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("untouched")
    os.symlink(precious, f"{path}.tmp")

    store.store_message(message("m2"))

    assert precious.read_text() == "untouched"
    assert not path.is_symlink()


def test_what_stands_where_the_new_file_goes_is_named(path: Path, store: JSONMessageStore) -> None:
    os.mkdir(f"{path}.tmp")

    with pytest.raises(IsADirectoryError) as caught:
        store.store_message(message("m2"))
    assert caught.value.filename == f"{path}.tmp"
    assert store.get_message_by_id("m2") is None


def test_fsync_false_waits_for_no_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)

    with MessageStore.initialize({"path": str(path), "fsync": False}) as store:
        store.store_conversation(conversation("c1"))

    assert path.is_file()


# Others that write, and many calls at once


def test_a_read_sees_an_edit_by_hand(path: Path, store: JSONMessageStore) -> None:
    store.store_message(message("m1", original_content="before"))

    path.write_bytes(path.read_bytes().replace(b"before", b"behind"))

    stored = store.get_message_by_id("m1")
    assert stored is not None
    assert stored.original_content == "behind"


def test_a_file_that_is_removed_is_an_empty_store(path: Path, store: JSONMessageStore) -> None:
    path.unlink()

    assert store.get_conversation_by_id("c1") is None


async def test_fifty_writes_at_once_take_two_flushes_at_most(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
