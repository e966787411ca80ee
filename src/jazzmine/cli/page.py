"""A conversation as one HTML file, for reading and printing; all stored text is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from jazzmine.cli.output import block, counted, line, when
from jazzmine.cli.rendering import turn_facts, turn_name
from jazzmine.records.messages import Conversation, Message, MessageRole
from jazzmine.records.traces import TurnTrace
from jazzmine.sync import MessageStore

_STYLE = """
:root {
  color-scheme: light dark;
  --soft: #595959; --line: #d0d0d0; --user: #eaf2fb; --bad: #a40000
}
@media (prefers-color-scheme: dark) {
  :root { --soft: #b0b0b0; --line: #444; --user: #1d2a3a; --bad: #ff9d9d }
}
* { box-sizing: border-box }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
header, article { border-bottom: 1px solid var(--line); padding: .75rem 0; break-inside: avoid }
article.user { background: var(--user); padding: .75rem }
h1 { margin: 0; font-size: 1.5rem; overflow-wrap: anywhere }
h2 { margin: 0; font-size: 1rem }
.soft, h2 span { color: var(--soft); font-size: .85rem; font-weight: normal }
.soft { overflow-wrap: anywhere }
.text, pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .25rem 0; font-size: inherit }
pre { font-size: .85rem }
.bad { color: var(--bad) }
@media print { body { max-width: none; margin: 0; font-size: 11pt } }
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_NAMES = {
    MessageRole.USER: "User",
    MessageRole.ASSISTANT: "Assistant",
    MessageRole.COLLEAGUE_ASSISTANT: "Colleague",
    MessageRole.SYSTEM: "System",
}


def conversation_page(store: MessageStore, conversation_id: str) -> Iterator[str]:
    """Yield the parts of the page of a conversation that is stored."""
    conversation = store.get_conversation_by_id(conversation_id)
    if conversation is None:
        return
    yield from _head(conversation)
    traces = store.get_turn_traces_by_conversation_id(conversation_id)
    of_message = {trace.message_id: trace for trace in traces}
    for message in store.iter_messages(conversation_id):
        yield from _message(message, of_message.get(message.id))
    yield "</main></body></html>\n"


def _head(conversation: Conversation) -> Iterator[str]:
    title = _text(conversation.title) or "Conversation"
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><main>\n"
    )
    user, agent = _text(conversation.user_id), _text(conversation.agent_id)
    yield (
        f"<header><h1>{title}</h1><p class=soft>conversation {_text(conversation.id)}, user {user},"
        f" agent {agent}<br>{when(conversation.created_at)} to"
        f" {when(conversation.last_updated_at)}</p>"
    )
    if conversation.metadata:
        yield f"<pre>{_json(conversation.metadata)}</pre>"
    yield "</header>\n"


def _message(message: Message, trace: TurnTrace | None) -> Iterator[str]:
    name = _NAMES.get(message.role, message.role.value)
    flag = " <span class=bad>flagged</span>" if message.is_flagged else ""
    yield (
        f"<article class={message.role.value}><h2>{name} <span>{when(message.timestamp)}"
        f" {_text(message.id)}</span>{flag}</h2>"
        f"<div class=text dir=auto>{escape(block(message.original_content))}</div>"
    )
    if message.entities:
        yield f"<p class=soft>entities: {_listed(entity.name for entity in message.entities)}</p>"
    if message.invoked_tools:
        yield f"<p class=soft>tools: {_listed(message.invoked_tools)}</p>"
    if message.errors:
        yield f"<p class=bad>errors: {_listed(message.errors)}</p>"
    if trace is not None:
        yield from _trace(trace)
    yield "</article>\n"


def _trace(trace: TurnTrace) -> Iterator[str]:
    facts = ", ".join(turn_facts(trace))
    yield f"<details><summary class=soft>{turn_name(trace)}: {facts}</summary>"
    for call in trace.llm_calls:
        yield (
            f"<p class=soft>{_text(call.model)} ({_text(call.purpose)}):"
            f" {counted(call.total_tokens, 'tokens')}, {call.latency_ms:,} ms</p>"
        )
    for tool in trace.tool_traces:
        if tool.tool_name:
            yield f"<p class=soft>{_text(tool.tool_name)}</p><pre>{_json(tool.arguments)}</pre>"
        else:
            yield (
                f"<p class=soft>{_text(tool.sandbox)}: {_text(tool.description)}</p>"
                f"<pre>{escape(block(tool.final_script or ''))}</pre>"
            )
        yield f"<pre>{_json(tool.final_data)}</pre>"
        if tool.error:
            yield f"<p class=bad>{_text(tool.error)}</p>"
    for error in trace.errors:
        yield f"<p class=bad>{_text(error)}</p>"
    yield "</details>"


def _text(text: str) -> str:
    return escape(line(text))


def _json(value: Any) -> str:
    return escape(block(json.dumps(value, ensure_ascii=False, indent=1)))


def _listed(texts: Any) -> str:
    return ", ".join(map(_text, texts))
