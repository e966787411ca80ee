"""A simple call of every method of a message store, and of every argument that is an id.

A call returns the result of the method: in the async API an awaitable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jazzmine import TraceFilter
from tests.behaviour.samples import conversation, message, trace

# Methods that return an iterator check their arguments when called, and have their own entries.
ITERATION = "iter_messages"

CALLS: dict[str, Callable[[Any], Any]] = {
    "append_messages": lambda store: store.append_messages("c1", [message("m9")]),
    "count_messages": lambda store: store.count_messages(["c1"]),
    "delete_conversation": lambda store: store.delete_conversation("c1"),
    "delete_message": lambda store: store.delete_message("m1"),
    "edit_conversation": lambda store: store.edit_conversation("c1", title="another"),
    "edit_message": lambda store: store.edit_message("m1", intent="order"),
    "erase_user": lambda store: store.erase_user("u1"),
    "find_turn_traces": lambda store: store.find_turn_traces(TraceFilter()),
    "flag_message": lambda store: store.flag_message("m1"),
    "fork_conversation": lambda store: store.fork_conversation("c1", conversation("c9")),
    "get_context_window": lambda store: store.get_context_window("c1", max_tokens=100),
    "get_conversation_by_id": lambda store: store.get_conversation_by_id("c1"),
    "get_conversations": lambda store: store.get_conversations(),
    "get_conversations_by_agent_id": lambda store: store.get_conversations_by_agent_id("a1"),
    "get_conversations_by_user_id": lambda store: store.get_conversations_by_user_id("u1"),
    "get_immediate_context": lambda store: store.get_immediate_context("c1", 3),
    "get_message_by_id": lambda store: store.get_message_by_id("m1"),
    "get_messages_by_conversation_id": lambda store: store.get_messages_by_conversation_id("c1"),
    "get_messages_by_ids": lambda store: store.get_messages_by_ids(["m1"]),
    "get_messages_by_user_id": lambda store: store.get_messages_by_user_id("u1"),
    "get_turn_trace_by_id": lambda store: store.get_turn_trace_by_id("t1"),
    "get_turn_trace_by_message_id": lambda store: store.get_turn_trace_by_message_id("m1"),
    "get_turn_traces_by_agent_id": lambda store: store.get_turn_traces_by_agent_id("a1"),
    "get_turn_traces_by_conversation_id": lambda store: store.get_turn_traces_by_conversation_id(
        "c1"
    ),
    "get_or_create_conversation": lambda store: store.get_or_create_conversation(conversation()),
    "move_user": lambda store: store.move_user("u1", "u9"),
    "ping": lambda store: store.ping(),
    "pop_message": lambda store: store.pop_message("c1"),
    "prune_conversations": lambda store: store.prune_conversations(before=0),
    "rewind_conversation": lambda store: store.rewind_conversation("c1", after=None),
    "search_messages": lambda store: store.search_messages("tea", limit=0),
    "store_conversation": lambda store: store.store_conversation(conversation()),
    "store_message": lambda store: store.store_message(message()),
    "store_messages": lambda store: store.store_messages([message()]),
    "store_turn": lambda store: store.store_turn(conversation=conversation()),
    "store_turn_trace": lambda store: store.store_turn_trace(trace()),
    "summarize_usage": lambda store: store.summarize_usage(TraceFilter(), by="agent"),
    "update_conversation": lambda store: store.update_conversation(conversation()),
    "update_message": lambda store: store.update_message(message()),
}

WITH_AN_ID: dict[str, Callable[[Any, Any], Any]] = {
    "append_messages": lambda store, value: store.append_messages(value, []),
    "delete_conversation": lambda store, value: store.delete_conversation(value),
    "delete_message": lambda store, value: store.delete_message(value),
    "edit_conversation": lambda store, value: store.edit_conversation(value, title="another"),
    "count_messages": lambda store, value: store.count_messages(["c1", value]),
    "edit_message": lambda store, value: store.edit_message(value, intent="order"),
    "erase_user": lambda store, value: store.erase_user(value),
    "move_user": lambda store, value: store.move_user("u1", value),
    "flag_message": lambda store, value: store.flag_message(value),
    "fork_conversation": lambda store, value: store.fork_conversation(value, conversation("c9")),
    "get_conversation_by_id": lambda store, value: store.get_conversation_by_id(value),
    "get_conversations_by_agent_id": lambda store, value: store.get_conversations_by_agent_id(
        value
    ),
    "get_conversations_by_user_id": lambda store, value: store.get_conversations_by_user_id(value),
    "get_context_window": lambda store, value: store.get_context_window(value, max_tokens=9),
    "get_immediate_context": lambda store, value: store.get_immediate_context(value, 3),
    "get_message_by_id": lambda store, value: store.get_message_by_id(value),
    "get_messages_by_conversation_id": lambda store, value: store.get_messages_by_conversation_id(
        value
    ),
    "get_messages_by_ids": lambda store, value: store.get_messages_by_ids(["m1", value]),
    "get_messages_by_user_id": lambda store, value: store.get_messages_by_user_id(value),
    "get_turn_trace_by_id": lambda store, value: store.get_turn_trace_by_id(value),
    "get_turn_trace_by_message_id": lambda store, value: store.get_turn_trace_by_message_id(value),
    "get_turn_traces_by_agent_id": lambda store, value: store.get_turn_traces_by_agent_id(value),
    "get_turn_traces_by_conversation_id": lambda store, value: (
        store.get_turn_traces_by_conversation_id(value)
    ),
    "pop_message": lambda store, value: store.pop_message(value),
    "prune_conversations": lambda store, value: store.prune_conversations(before=0, user_id=value),
    "rewind_conversation": lambda store, value: store.rewind_conversation(value, after=None),
}

AFTER: dict[str, Callable[[Any, Any], Any]] = {
    "find_turn_traces": lambda store, value: store.find_turn_traces(TraceFilter(), after=value),
    "get_context_window": lambda store, value: store.get_context_window(
        "c1", max_tokens=9, after=value
    ),
    "get_conversations": lambda store, value: store.get_conversations(after=value),
    "get_conversations_by_agent_id": lambda store, value: store.get_conversations_by_agent_id(
        "a1", after=value
    ),
    "get_conversations_by_user_id": lambda store, value: store.get_conversations_by_user_id(
        "u1", after=value
    ),
    "get_messages_by_conversation_id": lambda store, value: store.get_messages_by_conversation_id(
        "c1", after=value
    ),
    "get_messages_by_user_id": lambda store, value: store.get_messages_by_user_id(
        "u1", after=value
    ),
    "rewind_conversation": lambda store, value: store.rewind_conversation("c1", after=value),
}

COUNTS: dict[str, Callable[[Any, Any], Any]] = {
    "find_turn_traces-limit": lambda store, value: store.find_turn_traces(
        TraceFilter(), limit=value
    ),
    "get_conversations-limit": lambda store, value: store.get_conversations(limit=value),
    "get_conversations_by_agent_id-limit": lambda store, value: store.get_conversations_by_agent_id(
        "a1", limit=value
    ),
    "get_conversations_by_user_id-limit": lambda store, value: store.get_conversations_by_user_id(
        "u1", limit=value
    ),
    "get_context_window-max_tokens": lambda store, value: store.get_context_window(
        "c1", max_tokens=value
    ),
    "get_immediate_context-n": lambda store, value: store.get_immediate_context("c1", value),
    "get_messages_by_conversation_id-limit": lambda store, value: (
        store.get_messages_by_conversation_id("c1", limit=value)
    ),
    "get_messages_by_user_id-limit": lambda store, value: store.get_messages_by_user_id(
        "u1", limit=value
    ),
    "get_turn_traces_by_agent_id-limit": lambda store, value: store.get_turn_traces_by_agent_id(
        "a1", limit=value
    ),
    "get_turn_traces_by_agent_id-offset": lambda store, value: store.get_turn_traces_by_agent_id(
        "a1", offset=value
    ),
}
