"""Events of Google's ADK as messages that a person can read."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.state import State

from jazzmine.adapters._calls import require_session_id
from jazzmine.adapters._items import Described, call_text, described, item_message, item_of, text_of
from jazzmine.adapters._pairs import Part, whole
from jazzmine.records.messages import Conversation, Message, MessageRole

_KEY = "google_adk"


def conversation_id_of(app_name: str, user_id: str, session_id: str) -> str:
    """Return the id of a session's conversation: no other has it; parts may hold slashes.

    Spaces around the session's id do not count, as in the framework's own services.

    Raises:
        ValueError: a part is missing.
    """
    session_id = require_session_id(session_id).strip()
    parts = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
    return "/".join(
        require_session_id(part, name).replace("%", "%25").replace("/", "%2F")
        for name, part in parts.items()
    )


def place_of(conversation: Conversation) -> Sequence[str]:
    """Return the app, the user and the id of the session with a conversation.

    `move_user` may have given it to another user; a copy may have any id.
    """
    parts = conversation.id.split("/")
    if len(parts) != 3:
        parts = [conversation.agent_id, conversation.user_id, parts[-1]]
    return [part.replace("%2F", "/").replace("%25", "%") for part in parts]


def event_message(event: Event, conversation_id: str, user_id: str) -> Message:
    """Return a message that holds an event, as the framework's `DatabaseSessionService` keeps it.

    Temporary state is left out.

    Raises:
        ValueError: JSON has no form for a value of the event.
    """
    item = event.model_dump(mode="json", exclude_none=True)
    delta = item["actions"]["state_delta"]
    temporary = [key for key in delta if key.startswith(State.TEMP_PREFIX)]
    for key in temporary:
        del delta[key]
    return item_message(
        _KEY,
        item,
        described(_described, event),
        id=f"{conversation_id}/{event.id}",
        conversation_id=conversation_id,
        user_id=user_id,
        errors=[text_of(event.error_message)] if event.error_message else None,
        timestamp=round(event.timestamp * 1000),
    )


def event_delta(message: Message) -> dict[str, Any]:
    """Return the changes of state of the event that a message holds, as they are stored."""
    item: dict[str, Any] = item_of(message, _KEY, {})
    delta: dict[str, Any] = item.get("actions", {}).get("state_delta", {})
    return delta


def event_of(message: Message) -> Event | None:
    """Return the event that a message holds, or None if it holds none that can be read."""
    item = item_of(message, _KEY, None)
    return None if item is None else Event.model_validate(item)


def visible_events(messages: Sequence[Message]) -> list[Event]:
    """Return the events of messages that are not flagged, without halves of pairs."""
    found = [
        (event, message.is_flagged)
        for message in messages
        if (event := event_of(message)) is not None
    ]
    answered = {answer.id for event, _ in found for answer in event.get_function_responses()}
    parts = [part for event, hidden in found for part in _parts(event, answered, hidden)]
    stays = iter(whole(parts))
    visible = []
    for event, is_flagged in found:
        content = event.content
        given = (content.parts if content else None) or []
        kept = [part for part in given if next(stays)]
        if is_flagged or (given and not kept):
            continue
        if content is not None and len(kept) < len(given):
            shorter = content.model_copy(update={"parts": kept})
            event = event.model_copy(update={"content": shorter})
        visible.append(event)
    return visible


def _parts(event: Event, answered: Set[str | None], is_flagged: bool) -> list[Part]:
    # Calls that a person, or another system, answers at any time, as the framework knows.
    waiting = (event.long_running_tool_ids or set()) - answered
    return [
        Part(
            "waiting" if part.function_call.id in waiting else "call",
            part.function_call.id or "",
            is_flagged,
        )
        if part.function_call
        else Part("answer", part.function_response.id or "", is_flagged)
        if part.function_response
        else Part("other" if event.author == "user" else "said", "", is_flagged)
        for part in (event.content.parts if event.content else None) or []
    ]


def _described(event: Event) -> Described:
    parts = (event.content.parts if event.content else None) or []
    calls = [part.function_call for part in parts if part.function_call]
    is_answer = any(part.function_response for part in parts)
    role = MessageRole.USER if event.author == "user" else MessageRole.ASSISTANT
    spoken = event.input_transcription or event.output_transcription
    return Described(
        MessageRole.TOOL if is_answer else role,
        "\n".join(filter(None, map(_text, parts))) or (spoken.text or "" if spoken else ""),
        [call.name or "" for call in calls],
    )


def _text(part: Any) -> str:
    if part.text:
        return "" if part.thought else str(part.text)
    if part.function_call:
        return call_text(part.function_call.name, part.function_call.args)
    if part.function_response:
        return text_of(part.function_response.response)
    if part.executable_code:
        return str(part.executable_code.code)
    if part.code_execution_result:
        return str(part.code_execution_result.output)
    data = part.inline_data or part.file_data
    return f"[{data.mime_type}]" if data else ""
