"""What a model was sent, or what it answered, as messages, where it is a list of messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Part", "parts"]


@dataclass(frozen=True)
class Part:
    """A message to a model, or of one.

    Attributes:
        role: its role, or the type of an element that has none, such as a call of a tool.
        text: its text.
        others: its other fields, and content that is no text.
    """

    role: str
    text: str
    others: dict[str, Any]


def parts(value: Any) -> list[Part]:
    """Return the messages of an input or an output; none if it is anything else."""
    elements = value if isinstance(value, list) else [value]
    if not all(isinstance(element, dict) for element in elements):
        return []
    if not any(isinstance(element.get("role"), str) for element in elements):
        return []
    return [_part(element) for element in elements]


def _part(element: dict[str, Any]) -> Part:
    name = "role" if isinstance(element.get("role"), str) else "type"
    text = _text_of(element.get("content"))
    shown = {name} if text is None else {name, "content"}
    others = {
        key: field for key, field in element.items() if key not in shown and field is not None
    }
    return Part(str(element.get(name, "")), text or "", others)


def _text_of(content: Any) -> str | None:
    """Return the text of a message; None if its content is no text."""
    blocks = content if isinstance(content, list) else [content]
    texts: list[Any] = [block.get("text") if isinstance(block, dict) else block for block in blocks]
    return "\n\n".join(texts) if texts and all(isinstance(text, str) for text in texts) else None
