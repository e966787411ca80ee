"""The messages of a graph's state as a conversation that a person can read."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from jazzmine.adapters._encoding import readable
from jazzmine.adapters._items import text_of
from jazzmine.adapters._recorder import RunRecorder, append_with_traces
from jazzmine.records.messages import Conversation, Message, MessageRole
from jazzmine.records.traces import TurnTrace

__all__ = ["append_new"]

_ROLES = {
    "human": MessageRole.USER,
    "user": MessageRole.USER,
    "system": MessageRole.SYSTEM,
    "developer": MessageRole.SYSTEM,
    "tool": MessageRole.TOOL,
    "function": MessageRole.TOOL,
}

_AT_ONCE = 16


async def append_new(
    messages: Any,
    thread: str,
    user_id: str,
    agent_id: str,
    state: Sequence[Any],
    run: RunRecorder | None,
) -> None:
    """Append those messages of a state that follow the last one that is stored.

    Args:
        messages: a message store with the async API.
        thread: the id of the conversation.
        user_id, agent_id: whose it is, if it is new.
        state: the messages of the state.
        run: the run that they are of, if it is recorded; its trace is appended with them.
    """
    new: list[Message] = []
    end = len(state)
    while end > 0:
        first = max(0, end - _AT_ONCE)
        some = [_message(thread, user_id, index, state[index]) for index in range(first, end)]
        stored = {found.id for found in await messages.get_messages_by_ids([m.id for m in some])}
        position = len(some)
        while position and some[position - 1].id not in stored:
            position -= 1
        new[:0] = some[position:]
        if position:
            break
        end = first
    if not new:
        return
    if len(new) == len(state):
        await messages.get_or_create_conversation(
            Conversation(id=thread, user_id=user_id, agent_id=agent_id, title=_title(new))
        )

    async def append(trace: TurnTrace | None) -> None:
        await messages.append_messages(thread, new, trace=trace)

    await append_with_traces(messages, [] if run is None else [(run, new)], append)


def _message(thread: str, user_id: str, index: int, said: Any) -> Message:
    fields = said if isinstance(said, dict) else vars(said) if hasattr(said, "__dict__") else {}
    kind = fields.get("type") or fields.get("role")
    content = fields.get("content", said if isinstance(said, str) else None)
    calls = [call["name"] for call in fields.get("tool_calls") or [] if "name" in call]
    text = readable(text_of(content))
    own_id = fields.get("id")
    if not own_id:
        # A state without the reducer of messages gives them no ids.
        own_id = f"{index}:{blake2b(f'{kind}:{text}'.encode(), digest_size=8).hexdigest()}"
    return Message(
        id=f"{thread}/{own_id}",
        conversation_id=thread,
        user_id=user_id,
        role=_ROLES.get(str(kind), MessageRole.ASSISTANT),
        original_content=text,
        invoked_tools=[readable(str(name)) for name in calls] or None,
    )


def _title(messages: Sequence[Message]) -> str:
    texts = (said.original_content for said in messages if said.role is MessageRole.USER)
    return " ".join(next(texts, "").split())[:60]
