"""The records of two users, entangled in each other's conversations, and calls about them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from jazzmine import TraceFilter
from tests.behaviour.samples import conversation, message, trace

# The store is scoped to "u1", and "u2" is the stranger.
STRANGER = "u2"
CONVERSATIONS = [conversation("c1"), conversation("c2", user_id=STRANGER)]
MESSAGES = [
    message("m1"),
    message("m2", user_id=STRANGER),
    message("m3", conversation_id="c2", user_id=STRANGER, original_content="tea in secret"),
    message("m4", conversation_id="c2"),
]
TRACES = [
    trace("m1", id="t1"),
    trace("m3", id="t3", conversation_id="c2", user_id=STRANGER),
    trace("m4", id="t4", conversation_id="c2"),
]


class Ids(NamedTuple):
    """The ids that a call is about."""

    conversation: str
    message: str
    trace: str

    def hidden(self, text: str) -> str:
        """Return a text without these ids."""
        return re.sub("|".join(self), "ID", text)


OTHERS = [Ids("c2", "m3", "t3"), Ids("c2", "m4", "t4")]
ABSENT = Ids("c8", "m8", "t8")

# Each has the result that it would have if nothing were stored with the ids.
ABOUT: dict[str, Callable[[Any, Ids], Any]] = {
    "append_messages": lambda store, ids: store.append_messages(
        ids.conversation, [message("new", conversation_id=ids.conversation)]
    ),
    "append_messages-expected": lambda store, ids: store.append_messages(
        "c1", [message("new")], expected_last=ids.message
    ),
    "append_messages-replaced": lambda store, ids: store.append_messages(
        "c1", [message("new")], replace_after=ids.message
    ),
    "append_messages-again": lambda store, ids: store.append_messages(
        ids.conversation, [message(ids.message, conversation_id=ids.conversation)]
    ),
    "delete_conversation": lambda store, ids: store.delete_conversation(ids.conversation),
    "delete_message": lambda store, ids: store.delete_message(ids.message),
    "edit_conversation": lambda store, ids: store.edit_conversation(
        ids.conversation, title="mine", metadata={"a": 1}
    ),
    "count_messages": lambda store, ids: store.count_messages([ids.conversation]),
    "edit_message": lambda store, ids: store.edit_message(ids.message, intent="mine"),
    "find_turn_traces": lambda store, ids: store.find_turn_traces(
        TraceFilter(conversation_id=ids.conversation)
    ),
    "find_turn_traces-tool": lambda store, ids: store.find_turn_traces(
        TraceFilter(conversation_id=ids.conversation, tool={"success": True})
    ),
    "find_turn_traces-after": lambda store, ids: store.find_turn_traces(
        TraceFilter(), after=ids.trace
    ),
    "flag_message": lambda store, ids: store.flag_message(ids.message),
    "fork_conversation": lambda store, ids: store.fork_conversation(
        ids.conversation, conversation("c9")
    ),
    "fork_conversation-until": lambda store, ids: store.fork_conversation(
        "c1", conversation("c9"), until=ids.message
    ),
    "get_context_window": lambda store, ids: store.get_context_window(
        ids.conversation, max_tokens=100
    ),
    "get_conversation_by_id": lambda store, ids: store.get_conversation_by_id(ids.conversation),
    "get_conversations-after": lambda store, ids: store.get_conversations(after=ids.conversation),
    "get_conversations_by_agent_id-after": lambda store, ids: store.get_conversations_by_agent_id(
        "a1", after=ids.conversation
    ),
    "get_conversations_by_user_id-after": lambda store, ids: store.get_conversations_by_user_id(
        "u1", after=ids.conversation
    ),
    "get_immediate_context": lambda store, ids: store.get_immediate_context(ids.conversation, 3),
    "get_message_by_id": lambda store, ids: store.get_message_by_id(ids.message),
    "get_messages_by_conversation_id": lambda store, ids: store.get_messages_by_conversation_id(
        ids.conversation
    ),
    "get_messages_by_conversation_id-after": lambda store, ids: (
        store.get_messages_by_conversation_id(ids.conversation, after=ids.message)
    ),
    "get_messages_by_conversation_id-within": lambda store, ids: (
        store.get_messages_by_conversation_id("c1", after=ids.message)
    ),
    "get_messages_by_ids": lambda store, ids: store.get_messages_by_ids([ids.message]),
    "get_messages_by_user_id-after": lambda store, ids: store.get_messages_by_user_id(
        "u1", after=ids.message
    ),
    "get_turn_trace_by_id": lambda store, ids: store.get_turn_trace_by_id(ids.trace),
    "get_turn_trace_by_message_id": lambda store, ids: store.get_turn_trace_by_message_id(
        ids.message
    ),
    "get_turn_traces_by_conversation_id": lambda store, ids: (
        store.get_turn_traces_by_conversation_id(ids.conversation)
    ),
    "pop_message": lambda store, ids: store.pop_message(ids.conversation),
    "rewind_conversation": lambda store, ids: store.rewind_conversation(
        ids.conversation, after=None
    ),
    "rewind_conversation-after": lambda store, ids: store.rewind_conversation(
        ids.conversation, after=ids.message
    ),
    "rewind_conversation-within": lambda store, ids: store.rewind_conversation(
        "c1", after=ids.message
    ),
    "store_message": lambda store, ids: store.store_message(
        message("new", conversation_id=ids.conversation)
    ),
    "store_message-again": lambda store, ids: store.store_message(
        message(ids.message, conversation_id=ids.conversation)
    ),
    "update_message": lambda store, ids: store.update_message(
        message(ids.message, conversation_id=ids.conversation)
    ),
    "store_messages": lambda store, ids: store.store_messages(
        [message("new"), message("other", conversation_id=ids.conversation)]
    ),
    "store_turn": lambda store, ids: store.store_turn(
        messages=[message(ids.message, conversation_id=ids.conversation)],
        trace=trace(ids.message, id=ids.trace, conversation_id=ids.conversation),
    ),
    "store_turn-trace": lambda store, ids: store.store_turn(
        conversation=conversation("c9"),
        trace=trace(ids.message, id=ids.trace, conversation_id=ids.conversation),
    ),
    "store_turn_trace": lambda store, ids: store.store_turn_trace(
        trace(ids.message, id=ids.trace, conversation_id=ids.conversation)
    ),
    "store_turn_trace-of-own": lambda store, ids: store.store_turn_trace(trace(ids.message)),
    "store_turn_trace-names": lambda store, ids: store.store_turn_trace(
        trace("m2", conversation_id=ids.conversation)
    ),
    "summarize_usage": lambda store, ids: store.summarize_usage(
        TraceFilter(conversation_id=ids.conversation), by="model"
    ),
}
