"""A turn of the tea shop's agent with the sync API, for programs without an event loop."""

from __future__ import annotations

import time

import chat_rules

from jazzmine.sync import Message, MessageStore, WorkingMemoryStore


def look_up_price(tea: str) -> int | None:
    """The agent's tool: query the catalogue, another service."""
    time.sleep(0.01)
    return chat_rules.PRICES.get(tea)


def turn(store: MessageStore, memory: WorkingMemoryStore, said: chat_rules.Said) -> Message:
    """Answer a message of the user, and store the whole turn: all of it or nothing.

    The conversation is locked from the first line to the last, so that its turns come one
    after another, however many requests there are at once.
    """
    cid = said.conversation_id
    conversation = store.get_or_create_conversation(chat_rules.conversation(said))
    chat_rules.require_user(conversation, said)
    memory.get_or_create(cid, said.user_id, chat_rules.AGENT)
    with memory.locked(cid, said.question_id) as wm:
        began = chat_rules.now()
        context = store.get_immediate_context(cid, 6)
        cache = chat_rules.understand(said, context, wm)
        wm.begin_turn(cache)
        answered = store.get_message_by_id(said.reply_id)
        if answered is not None:  # sent again: its reply was lost, or the process died
            wm.end_turn(answered.original_content, cache.intent)
            return answered
        for tea in chat_rules.teas_to_look_up(cache):
            wm.record_tool_call(chat_rules.tool_call(tea, look_up_price(tea)))
        text = chat_rules.answer(wm)
        wm.end_turn(text, cache.intent)
        question, reply = chat_rules.messages(said, cache, text, began)
        trace = chat_rules.trace(question, reply, context, wm)
        store.append_messages(cid, [question, reply], trace=trace)
    return reply
