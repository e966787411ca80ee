"""The second half of the demo: a sync script goes on in the middle of the agent's flow."""

from __future__ import annotations

import sys
import time

import rules
from jazzmine.sync import MessageStore, TraceFilter, WorkingMemory, WorkingMemoryStore


def turn(store: MessageStore, memory: WorkingMemoryStore, text: str) -> rules.Reply:
    """Answer a message of the user, and store the whole turn: all of it or nothing."""
    began = time.time()
    cid = rules.CONVERSATION
    known = memory.get_or_create(cid, rules.USER, rules.AGENT)
    memory.begin_turn(cid, rules.understand(text, known))
    with memory.locked(cid) as wm:
        reply = rules.answer(wm, text)
    now = memory.end_turn(cid, reply.text, reply.intent)
    store.get_or_create_conversation(rules.conversation(now))
    store.append_messages(cid, rules.messages(now, text, reply), trace=rules.trace(now, began))
    return reply


def main(path: str) -> None:
    """Run the last three turns, and print the stored data."""
    database = {"storage": "sqlite", "path": path}
    with (
        MessageStore.initialize(database) as store,
        WorkingMemoryStore.initialize(database) as memory,
    ):
        found = memory.get(rules.CONVERSATION)
        assert found is not None
        show_flow(found)
        for text in (
            "By the way, when do you open on Saturday?",
            "Good. Pick it up on 2026-12-01, please.",
            "Yes, do it.",
        ):
            print(f"  Ada   {text}")
            reply = turn(store, memory, text)
            print(f"  Desk  {reply.text}")
        print("\nWhat the model is given for the last reply: the tool calls so far,")
        print(reply.tool_sections)
        now = memory.get(rules.CONVERSATION)
        assert now is not None
        print("\nWhat the working memory holds:")
        print(f"  it, that        {', '.join(entity.name for entity in now.salient_entities)}")
        print(f"  topic shifts    {', '.join(topic.intent for topic in now.topic_history)}")
        print(f"  flows completed {', '.join(now.flows_completed_names)}")
        print("\nWhat the turns of both processes were about, from their traces:")
        for usage in store.summarize_usage(TraceFilter(agent_id=rules.AGENT), by="intent"):
            print(f"  {usage.key:<14} {usage.turns} turn(s), at most {usage.max_latency_ms} ms")
        stored = store.get_messages_by_conversation_id(rules.CONVERSATION)
        print(f"\n{len(stored)} messages and the working memory are in {path}.")


def show_flow(memory: WorkingMemory) -> None:
    """Print the flow that the other process left unfinished."""
    flow = memory.active_flow
    assert flow is not None
    known = ", ".join(f"{name} = {value}" for name, value in flow.collected_slot_values.items())
    print(f"  (found: {flow.flow_name!r}, {memory.status.value};")
    print(f"   {known}; still to ask: {', '.join(slot.name for slot in memory.pending_slots)})")


main(sys.argv[1])
