"""The summary of the guide and the window after it: together they have every message."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine import Conversation, Message
from jazzmine.core import MessageStore, TurnRecorder
from tests.examples.test_documentation import ROOT, blocks_of

GUIDE = ROOT / "docs" / "guides" / "long-conversations.md"


@pytest.mark.parametrize("keep", range(1, 13))
async def test_no_message_is_missing_in_both(keep: int) -> None:
    guide: dict[str, Any] = {}
    for block in blocks_of(GUIDE):
        if block.runs and "async def summarize" in block.text:
            exec(block.text, guide)
    summarized: list[str] = []

    def write_summary(before: str, messages: list[Message]) -> str:
        summarized.extend(message.id for message in messages)
        return "a summary"

    guide["write_summary"] = write_summary
    async with await MessageStore.initialize("memory:") as store:
        await store.store_conversation(Conversation(id="c1", user_id="ada", agent_id="desk"))
        for _ in range(8):
            await a_turn_with_three_tools(store)
        await guide["summarize"](store, "c1", keep)
        chat = await store.get_conversation_by_id("c1")
        assert chat is not None
        window = await store.get_context_window(
            "c1", max_tokens=4000, after=chat.metadata["summary"]["until"]
        )
        all_ids = [message.id for message in await store.get_messages_by_conversation_id("c1")]
    assert summarized + [message.id for message in window] == all_ids
    assert len(window) >= keep


async def a_turn_with_three_tools(store: MessageStore) -> None:
    recorder = TurnRecorder(conversation_id="c1", user_id="ada", agent_id="desk")
    recorder.user("Where are they?")
    recorder.assistant("")
    for number in range(3):
        with recorder.tool_call("find_order", {"id": number}) as call:
            call.result(number)
    recorder.assistant("Here.")
    await store.append_messages("c1", recorder.messages, trace=recorder.trace)
