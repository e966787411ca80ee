"""The scripts that move a history may run again, when the conversation has gone on meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jazzmine import Conversation, Message, MessageRole
from jazzmine.sync import MessageStore
from tests.examples.test_documentation import defined_in


def copy_langchain(page: dict[str, Any], store: MessageStore) -> None:
    chat = Conversation(id="session-1", user_id="ada", agent_id="desk")
    page["copy_history"](Path("history.json"), store, chat)


def copy_sessions(page: dict[str, Any], store: MessageStore) -> None:
    page["copy_sessions"]("sessions.db", store, user_id="ada", agent_id="desk")


@pytest.mark.parametrize(
    ("page", "conversation_id", "copy"),
    [("langchain", "session-1", copy_langchain), ("openai-sessions", "s1", copy_sessions)],
)
def test_a_second_run_changes_nothing(
    page: str, conversation_id: str, copy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = defined_in(f"moving/{page}.md")
    with MessageStore.initialize("json:messages.json") as store:
        store.edit_conversation(conversation_id, title="Tea")
        reply = Message(
            conversation_id=conversation_id,
            user_id="ada",
            role=MessageRole.USER,
            original_content="And coffee?",
        )
        store.append_messages(conversation_id, [reply])
        before = (
            store.get_conversation_by_id(conversation_id),
            store.get_messages_by_conversation_id(conversation_id),
        )
        copy(names, store)

        assert before == (
            store.get_conversation_by_id(conversation_id),
            store.get_messages_by_conversation_id(conversation_id),
        )
        assert before[1][-1] == reply
