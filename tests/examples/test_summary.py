"""The summary of the guide and the window after it: together they have every message."""

from __future__ import annotations

import pytest

from jazzmine import Conversation, Message
from jazzmine.core import MessageStore, TurnRecorder
from tests.examples.test_documentation import defined_in

SUMMARIES = "guides/long-conversations.md", lambda text: "async def summarize" in text


@pytest.mark.parametrize("keep", range(1, 13))
async def test_no_message_is_missing_in_both(keep: int) -> None:
    guide = defined_in(*SUMMARIES)
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


@pytest.mark.parametrize("how", ["rewound", "forked"])
async def test_a_summary_without_its_last_message_is_dropped(how: str) -> None:
    guide = defined_in(*SUMMARIES)
    async with await MessageStore.initialize("memory:") as store:
        chat = Conversation(id="c1", user_id="ada", agent_id="desk")
        await store.store_conversation(chat)
        for _ in range(8):
            await a_turn_with_three_tools(store)
        await guide["summarize"](store, "c1", 20)
        assert (await guide["prompt_for"](store, "c1"))[0]["role"] == "system"

        if how == "rewound":
            await store.rewind_conversation("c1", after=None)
            await a_turn_with_three_tools(store)
        else:
            stored = await store.get_conversation_by_id("c1")
            assert stored is not None
            chat = stored.model_copy(update={"id": "c2"})
            await store.fork_conversation("c1", chat)

        prompt = await guide["prompt_for"](store, chat.id)
        assert prompt[0] == {"role": "user", "content": "Where are they?"}
        await guide["summarize"](store, chat.id, 3)


async def a_turn_with_three_tools(store: MessageStore) -> None:
    recorder = TurnRecorder(conversation_id="c1", user_id="ada", agent_id="desk")
    recorder.user("Where are they?")
    recorder.assistant("")
    for number in range(3):
        with recorder.tool_call("find_order", {"id": number}) as call:
            call.result(number)
    recorder.assistant("Here.")
    await store.append_messages("c1", recorder.messages, trace=recorder.trace)
