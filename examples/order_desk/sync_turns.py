"""The second half of the demo: a sync script goes on in the middle of the agent's flow."""

from __future__ import annotations

import sys

import rules
from jazzmine.sync import Message, MessageStore, TraceFilter, WorkingMemory, WorkingMemoryStore


def turn(store: MessageStore, memory: WorkingMemoryStore, message_id: str, text: str) -> Message:
    """Answer a message of the user; it may be delivered twice, and repeated after a crash."""
    cid = rules.CONVERSATION
    store.get_or_create_conversation(rules.conversation())
    known = memory.get_or_create(cid, rules.USER, rules.AGENT)
    wm = memory.begin_turn(cid, rules.understand(message_id, text, known))
    reply = store.get_message_by_id(rules.reply_id(message_id))
    if reply is None:  # or else it was delivered twice, or the process died after the append
        newest = store.get_messages_by_conversation_id(cid, order="newest", limit=1)
        recorder = rules.recorded(message_id, text, wm)
        [*_, reply] = store.append_messages(
            cid,
            recorder.messages,
            expected_last=newest[-1].id if newest else None,
            trace=recorder.trace,
        )
    memory.update(cid, lambda wm: rules.finish(wm, text), message_id=message_id)
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
        said = (
            "By the way, when do you open on Saturday?",
            "Good. Pick it up on 2026-12-01, please.",
            "Yes, do it.",
        )
        for number, text in enumerate(said, 5):
            print(f"  Ada   {text}")
            reply = turn(store, memory, f"{rules.CONVERSATION}-{number}", text)
            print(f"  Desk  {reply.original_content}")
        print("\nWhat the model is given for the last reply: the tool calls so far,")
        print(reply.metadata["tool_sections"])
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
