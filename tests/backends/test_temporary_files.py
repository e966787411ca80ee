"""No embedded store opens a temporary file: that folder may be read-only, or its disk full."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from jazzmine import Conversation, Message, MessageRole
from jazzmine.sync.message_store import MessageStore

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks in /proc")


class OpenFiles:
    """Notes the names of the temporary files that SQLite opens while the block runs."""

    def __init__(self) -> None:
        self.temporary: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> OpenFiles:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.0005):
            for number in os.listdir("/proc/self/fd"):
                try:
                    name = os.readlink(f"/proc/self/fd/{number}")
                except OSError:
                    continue
                if "etilqs_" in name:
                    self.temporary.add(name)


@pytest.mark.parametrize("url", ["sqlite:{}/agent.db", "json:{}/agent.json", "memory:"])
def test_large_writes_and_erasures_open_no_temporary_file(url: str, tmp_path: Path) -> None:
    texts = [
        Message(
            conversation_id="c", user_id="u", role=MessageRole.USER, original_content="x" * 2000
        )
        for _ in range(2000)
    ]
    with MessageStore.initialize(url.format(tmp_path)) as store, OpenFiles() as files:
        store.store_conversation(Conversation(id="c", user_id="u", agent_id="a"))
        store.store_messages(texts)
        store.fork_conversation("c", Conversation(id="copy", user_id="u", agent_id="a"))
        store.rewind_conversation("copy", after=None)
        store.erase_user("u")

    assert files.temporary == set()
