"""Sessions of the OpenAI Agents SDK for its tests."""

from __future__ import annotations

from typing import Any

from jazzmine.adapters.openai_agents import JazzmineSession
from jazzmine.core import MessageStore
from jazzmine.sync import MessageStore as SyncMessageStore

__all__ = ["CALL", "OUTPUT", "contents", "said", "session_of"]

CALL = {"type": "function_call", "call_id": "k", "name": "weather", "arguments": '{"city":"X"}'}
OUTPUT = {"type": "function_call_output", "call_id": "k", "output": "rain"}


def session_of(store: MessageStore | SyncMessageStore, name: str = "s1", **more: Any) -> Any:
    """A session; untyped, because tests add items that the SDK's types do not know."""
    return JazzmineSession(store, name, user_id="u1", agent_id="a1", **more)


def said(*contents: str) -> list[dict[str, object]]:
    return [{"role": "user", "content": content} for content in contents]


def contents(items: list[dict[str, Any]]) -> list[Any]:
    return [item["content"] for item in items]
