"""Run by a test on a disk of 64 KB: fills it, and checks that failed writes changed nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from jazzmine.sync.message_store import Conversation, Message, MessageRole, MessageStore


def _message(message_id: str, content: str) -> Message:
    return Message(
        id=message_id,
        conversation_id="c1",
        user_id="u1",
        role=MessageRole.USER,
        original_content=content,
        timestamp=1,
    )


def main(disk: Path) -> None:
    """Fail unless a failed write leaves the file unchanged."""
    path = disk / "messages.json"
    conversation = Conversation(
        id="c1", user_id="u1", agent_id="a1", title="", created_at=1, last_updated_at=1
    )
    with MessageStore.initialize({"path": str(path)}) as store:
        store.store_conversation(conversation)
        store.store_message(_message("m1", "short"))
        before = path.read_bytes()
        with pytest.raises(OSError, match=f"No space left.*{path}"):
            store.store_message(_message("m2", "x" * 100_000))
        assert path.read_bytes() == before
        assert sorted(os.listdir(disk)) == ["messages.json", "messages.json.lock"]
        assert store.get_message_by_id("m2") is None
        store.store_message(_message("m2", "short"))
        assert store.get_message_by_id("m2") is not None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
