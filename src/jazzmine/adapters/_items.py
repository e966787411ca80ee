"""Messages that hold the items of a framework, and that a person can read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from jazzmine.adapters._encoding import decoded, encoded, readable
from jazzmine.records.messages import Message, MessageRole
from jazzmine.records.storable import storable_json

T = TypeVar("T")

_ROLES = {
    "user": MessageRole.USER,
    "human": MessageRole.USER,
    "assistant": MessageRole.ASSISTANT,
    "ai": MessageRole.ASSISTANT,
    "model": MessageRole.ASSISTANT,
    "system": MessageRole.SYSTEM,
    "developer": MessageRole.SYSTEM,
    "tool": MessageRole.TOOL,
    "function": MessageRole.TOOL,
}

# Which value of a part is a call's arguments, or its result, by the part's type.
_CALLS = {"tool_use": "input", "function_call": "arguments"}
_RESULTS = {"tool_result": "content", "function_result": "result"}


# How many characters of what is no text are shown.
_LONGEST = 1_000_000


class Described(NamedTuple):
    """What a person who reads the conversation sees of an item."""

    role: MessageRole
    text: str
    tools: Sequence[str] = ()
    """The names of the tools that it calls."""


def described(describe: Callable[[Any], Described], item: Any) -> Described:
    """Return what a person sees of an item; of one that cannot be described, its type."""
    try:
        return describe(item)
    except Exception:
        return Described(MessageRole.ASSISTANT, f"[{type(item).__name__} without a description]")


def role_of(name: object) -> MessageRole | None:
    """Return the role that the APIs of models call by a name, or None."""
    return _ROLES.get(name) if isinstance(name, str) else None


def call_text(tool: object, arguments: object) -> str:
    """Return what a person reads of a call of a tool."""
    given = arguments if isinstance(arguments, str) or not arguments else _json(_plain(arguments))
    return f"{tool}({given or ''})"


def text_of(content: object) -> str:
    """Return the text of a message's content for a person who reads it; nothing makes it fail.

    Args:
        content: a str, None, or a list of parts as the APIs of models have them; a part without
            text, such as an image, is named by its type. Anything else is shown as pydantic's and
            the dataclasses' own dumps are, or as its `repr`.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, dict | list | tuple):
        plain = _plain(content)
        # A block of an API's own classes reads like the dict of its fields.
        is_block = isinstance(plain, dict) and isinstance(plain.get("type"), str)
        return text_of(plain) if is_block else plain if isinstance(plain, str) else _json(plain)
    try:
        return _text_of_parts(content)
    except RecursionError:
        return f"[{type(content).__name__}]"


def _text_of_parts(content: dict[Any, Any] | Sequence[Any]) -> str:
    if not isinstance(content, dict):
        return "\n".join(map(text_of, content))
    for key in ("text", "refusal", "transcript", "thinking", "reasoning"):
        if isinstance(content.get(key), str):
            return str(content[key])
    kind = content.get("type")
    if not isinstance(kind, str):
        return _json(_plain(content))
    if kind in _CALLS:
        return call_text(content.get("name"), content.get(_CALLS[kind]))
    return text_of(content.get(_RESULTS[kind])) if kind in _RESULTS else f"[{kind}]"


def _plain(value: object) -> Any:
    return storable_json(value, _LONGEST)


def _json(plain: object) -> str:
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def item_message(
    key: str,
    item: object,
    described: Described,
    *,
    conversation_id: str,
    user_id: str,
    **fields: Any,
) -> Message:
    """Return a new message that holds an item, under an id of its own."""
    return Message(
        conversation_id=conversation_id,
        user_id=user_id,
        role=described.role,
        original_content=readable(described.text),
        invoked_tools=[readable(tool) for tool in described.tools] or None,
        metadata={key: encoded(item)},
        **fields,
    )


def item_of(message: Message, key: str, default: T) -> Any | T:
    """Return the item that a message holds under a key, or the default if it holds none."""
    text = message.metadata.get(key)
    return decoded(text) if isinstance(text, str) else default
