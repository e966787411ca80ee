"""States and messages of Strands Agents for its tests."""

from __future__ import annotations

from typing import Any

from strands.types.session import SessionAgent, SessionMessage

__all__ = ["ids", "said", "state"]


def state(agent_id: str = "guide", **values: Any) -> SessionAgent:
    return SessionAgent(agent_id=agent_id, state=values, conversation_manager_state={"n": 1})


def said(text: str, index: int) -> SessionMessage:
    return SessionMessage.from_message({"role": "user", "content": [{"text": text}]}, index)


def ids(messages: list[SessionMessage]) -> list[int]:
    return [message.message_id for message in messages]
