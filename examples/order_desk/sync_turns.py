"""The second half of the demo: a sync script continues the agent's conversation."""

from __future__ import annotations

import sys
import time

import rules
from jazzmine.sync import MessageStore, TraceFilter, WorkingMemory, WorkingMemoryStore


def turn(store: MessageStore, memory: WorkingMemoryStore, text: str) -> rules.Reply:
    """Hear the user, answer, and store the whole turn: all of it or nothing."""
    began = time.time()
    cid = rules.CONVERSATION
    known = memory.get_or_create(cid, rules.USER, rules.AGENT)
    memory.begin_turn(cid, rules.understand(text, known))
    with memory.locked(cid) as wm:
        reply = rules.answer(wm, text)
    now = memory.end_turn(cid, reply.text, reply.intent)
    store.store_turn(
        conversation=rules.conversation(now),
        messages=rules.messages(now, text, reply),
        trace=rules.trace(now, began),
    )
    return reply


def main(path: str) -> None:
    """Hold the last three turns, and show what there is to show."""
    with (
        MessageStore.initialize(f"json:{path}") as store,
        WorkingMemoryStore.initialize("memory:") as memory,
    ):
        conversation = store.get_conversation_by_id(rules.CONVERSATION)
        assert conversation is not None
        restored = WorkingMemory.from_dict(conversation.metadata["working_memory"])
        restored.revision = 0  # this store has never had it
        memory.save(restored)
        for text in (
            "By the way, when do you open on Saturday?",
            "Good. Pick it up on 2026-12-01, please.",
            "Yes, do it.",
        ):
            print(f"  Ada   {text}")
            reply = turn(store, memory, text)
            print(f"  Desk  {reply.text}")
        print("\nWhat the next prompt is given, the six newest messages:")
        for message in store.get_immediate_context(rules.CONVERSATION, 6):
            print(f"  {message.role.value:<9}  {message.original_content}")
        print("\nand the tool calls as they stood before the last reply:")
        print(reply.tool_sections)
        now = memory.get(rules.CONVERSATION)
        assert now is not None
        print("\nWhat the working memory holds:")
        print(f"  it, that        {', '.join(entity.name for entity in now.salient_entities)}")
        print(f"  topic shifts    {', '.join(topic.intent for topic in now.topic_history)}")
        print(f"  flows completed {', '.join(now.flows_completed_names)}")
        print("\nWhat the turns were about, from their traces:")
        for usage in store.summarize_usage(TraceFilter(agent_id=rules.AGENT), by="intent"):
            print(f"  {usage.key:<14} {usage.turns} turn(s), at most {usage.max_latency_ms} ms")
        print(f"\nAll of it is in {path}, one record a line.")


main(sys.argv[1])
