"""The embedded stores without what Windows lacks, and what differs on macOS and Windows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import jazzmine
from jazzmine.backends.sqlite.connection import Connection, create_file
from jazzmine.sync.message_store import MessageStore

# The standard library, filelock and pydantic have ways of their own on Windows.
PROGRAM = """
import asyncio, concurrent.futures, logging, multiprocessing, os, random, select, sqlite3, sys
import filelock, uuid, platform
from pydantic import BaseModel

MISSING = {
    os: ["register_at_fork", "fork", "uname", "fchown", "writev",
         "O_CLOEXEC", "O_DIRECTORY", "getxattr"],
    select: ["poll", "epoll"],
}
for module, names in MISSING.items():
    for name in names:
        vars(module).pop(name, None)
for name in ("fcntl", "resource", "grp", "pwd", "termios"):
    sys.modules[name] = None
real_open = os.open

def open_no_folder(path, flags, *rest, **options):
    if os.path.isdir(path) and not flags & os.O_PATH:
        raise PermissionError(13, "a folder cannot be opened", path)
    return real_open(path, flags, *rest, **options)

os.open = open_no_folder

from jazzmine import core, sync
from jazzmine.records.turn import TurnCache
from tests.behaviour.samples import conversation, message, trace

folder = sys.argv[1]
MESSAGES = [f"sqlite:{folder}/%s.db", f"json:{folder}/%s.json", "memory:%.0s"]
OTHERS = [f"sqlite:{folder}/%s.db", "memory:%.0s"]

for url in MESSAGES:
    with sync.MessageStore.initialize(url % "sync") as store:
        store.store_turn(conversation=conversation(), messages=[message("m1")], trace=trace("m1"))
        assert store.get_message_by_id("m1") == message("m1")
        store.erase_user("u1")
for url in OTHERS:
    with sync.WorkingMemoryStore.initialize(url % "sync") as memory:
        memory.get_or_create("c1", "u1", "a1")
        memory.begin_turn("c1", TurnCache(1))
        with memory.locked("c1") as wm:
            assert wm.revision == 2
    with sync.LongTermMemoryStore.initialize(url % "sync") as items:
        items.put(sync.MemoryItem(namespace=("a",), key="k", value={"x": 1}))
        assert items.get(("a",), "k").value == {"x": 1}

async def use_async():
    async with await core.MessageStore.initialize(MESSAGES[0] % "async") as store:
        await store.store_conversation(conversation())
        assert await store.get_conversation_by_id("c1") == conversation()

asyncio.run(use_async())
import jazzmine._async.clients.mongodb.client, jazzmine._sync.clients.mongodb.client
import jazzmine._async.working_memory.redis, jazzmine._sync.working_memory.redis
import jazzmine._async.clients.postgres.client, jazzmine._sync.clients.postgres.client
print("worked")
"""


def test_the_embedded_stores_work_without_what_only_posix_has(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]

    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert ran.stdout == "worked\n", ran.stderr


def test_the_library_itself_uses_nothing_of_posix_that_filelock_uses_there() -> None:
    root = Path(jazzmine.__file__).parent
    posix = re.compile(r"\b(O_NONBLOCK|O_NOFOLLOW|fchmod|import fcntl)\b")
    assert [path for path in root.rglob("*.py") if posix.search(path.read_text())] == []


def test_a_drive_of_windows_is_no_scheme() -> None:
    with pytest.raises(Exception, match="end of the path does not say") as caught:
        MessageStore.initialize(r"C:\data\agent.txt")
    assert "C:" not in str(caught.value)


@pytest.mark.parametrize(("platform", "flushes"), [("darwin", 1), ("linux", 0)])
def test_on_macos_sqlite_flushes_the_cache_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, flushes: int
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    create_file(path := str(tmp_path / "agent.db"))
    connection = Connection(path, "full")

    driver = connection.open()
    for name in ("fullfsync", "checkpoint_fullfsync"):
        assert driver.execute(f"PRAGMA {name}").fetchone() == (flushes,)
    connection.close()
