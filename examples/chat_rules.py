"""The rules of a tea shop's chat, in place of a language model.

This module only reads and creates records, and does no I/O, so that the async and the sync
programs share it unchanged.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from jazzmine import (
    Conversation,
    Entity,
    LLMCallRecord,
    Message,
    MessageRole,
    ToolCallRecord,
    ToolTrace,
    TurnCache,
    TurnTrace,
    WorkingMemory,
)

AGENT = "tea-shop"
PRICES = {"assam": 9, "rooibos": 7, "sencha": 14}
TEAS = re.compile(rf"\b({'|'.join(PRICES)}|lapsang)\b")


class RequestError(Exception):
    """The request is invalid."""

    status = 422


class ForbiddenError(RequestError):
    """The request is for a conversation of another user."""

    status = 403


@dataclass(frozen=True)
class Said:
    """A user's request in a conversation; its id makes repeating it safe."""

    conversation_id: str
    user_id: str
    text: str
    id: str

    @classmethod
    def read(cls, conversation_id: str, body: bytes) -> Said:
        """Read the body of a request: `{"user_id": …, "text": …}`, and an `id` if it has one.

        Raises:
            RequestError: it has another form.
        """
        try:
            fields = json.loads(body)
            said = cls(conversation_id, **{"id": str(uuid4()), **fields})
            for value in (conversation_id, said.user_id, said.text, said.id):
                if (
                    not value.encode()
                ):  # JSON can escape a lone surrogate, as "\ud800", which UTF-8 cannot encode
                    raise ValueError("an empty string")
        except (AttributeError, TypeError, ValueError) as error:
            raise RequestError("expected user_id, text and perhaps id, all texts") from error
        return said

    @property
    def question_id(self) -> str:
        """The id of the user's message."""
        return f"{self.conversation_id}/{self.id}"

    @property
    def reply_id(self) -> str:
        """The id of the shop's."""
        return f"{self.question_id}/reply"


def conversation(said: Said) -> Conversation:
    """Return the conversation of a turn, for the case that it is not stored yet."""
    return Conversation(
        id=said.conversation_id, user_id=said.user_id, agent_id=AGENT, title=said.text[:60]
    )


def require_user(conversation: Conversation, said: Said) -> None:
    """Raise `ForbiddenError` if a conversation belongs to another user."""
    if conversation.user_id != said.user_id:
        raise ForbiddenError(f"conversation {conversation.id!r} belongs to another user")


def reader(user_id: str | None) -> str:
    """Return who reads a conversation: here the query says it, elsewhere the sign-in.

    Raises:
        RequestError: nobody is named.
    """
    if not user_id:
        raise RequestError("expected user_id in the query")
    return user_id


def understand(said: Said, context: Sequence[Message], memory: WorkingMemory) -> TurnCache:
    """Return the user's intent; "it" is the tea that was mentioned last."""
    words = said.text.lower()
    teas = list(dict.fromkeys(TEAS.findall(words)))
    if not teas and re.search(r"\bit\b", words):
        spoken_of = [entity.name for entity in memory.salient_entities]
        # The messages replace a working memory that is new or has expired.
        spoken_of += [entity.name for message in reversed(context) for entity in message.entities]
        teas = spoken_of[:1]
    return TurnCache(
        message_id=said.question_id,
        enhanced_query=said.text,
        intent="price" if re.search("much|price|cost", words) else "small_talk",
        raw_entities=[{"name": tea} for tea in teas],
    )


def teas_to_look_up(cache: TurnCache) -> list[str]:
    """Return the teas for which to call the tool."""
    return [tea["name"] for tea in cache.raw_entities] if cache.intent == "price" else []


def tool_call(tea: str, price: int | None) -> ToolCallRecord:
    """Return the call that looked up a price; None is the price of an unknown tea."""
    return ToolCallRecord(
        "look_up_price",
        {"tea": tea},
        result=price,
        result_summary="" if price is None else f"{price}.00",
        success=price is not None,
        error=f"no {tea} in the catalogue" if price is None else "",
    )


def answer(memory: WorkingMemory) -> str:
    """Return the answer of the current turn."""
    assert memory.current_turn is not None
    calls = memory.current_turn.tool_calls
    if calls:
        return " ".join(
            f"A tin of {call.arguments['tea']} is {call.result_summary}."
            if call.success
            else f"We have no {call.arguments['tea']}."
            for call in calls
        )
    if memory.current_turn.intent == "price":
        return "Which tea do you mean?"
    return "Hello! Ask me what a tea costs."


# The records of a turn.


def messages(said: Said, cache: TurnCache, text: str, began: int) -> tuple[Message, Message]:
    """The user's message, and the shop's that answers it.

    Args:
        said: what the user said.
        cache: what was understood of it.
        text: the answer.
        began: when the turn began, in ms.
    """
    question = Message(
        id=said.question_id,
        conversation_id=said.conversation_id,
        user_id=said.user_id,
        role=MessageRole.USER,
        original_content=said.text,
        intent=cache.intent,
        entities=[Entity(**entity) for entity in cache.raw_entities],
        timestamp=began,
    )
    reply = Message(
        id=said.reply_id,
        conversation_id=said.conversation_id,
        user_id=said.user_id,
        role=MessageRole.ASSISTANT,
        original_content=text,
        intent=cache.intent,
        timestamp=now(),
    )
    return question, reply


def trace(
    question: Message, reply: Message, context: Sequence[Message], memory: WorkingMemory
) -> TurnTrace:
    """The trace of the turn: its model call, its tool calls, and how long it took."""
    assert memory.current_turn is not None
    calls = memory.current_turn.tool_calls
    model = "rules-large" if calls else "rules-small"
    called = _model_call(model, question, reply, context)
    return TurnTrace(
        id=f"{question.id}/trace",
        message_id=reply.id,
        conversation_id=reply.conversation_id,
        user_id=reply.user_id,
        agent_id=AGENT,
        turn_number=memory.turn_number,
        started_at_ms=question.timestamp,
        ended_at_ms=reply.timestamp,
        total_latency_ms=reply.timestamp - question.timestamp,
        total_prompt_tokens=called.prompt_tokens,
        total_completion_tokens=called.completion_tokens,
        total_tokens=called.total_tokens,
        llm_calls=[called],
        tool_traces=[_tool_trace(call) for call in calls],
        errors=[call.error for call in calls if not call.success],
        detected_intent=memory.current_turn.intent,
        detected_entities=[entity.name for entity in question.entities],
    )


def _model_call(
    model: str, question: Message, reply: Message, context: Sequence[Message]
) -> LLMCallRecord:
    # Each word is a token here.
    prompt = sum(len(each.original_content.split()) for each in (*context, question))
    completion = len(reply.original_content.split())
    return LLMCallRecord(
        purpose="agent_loop",
        model=model,
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        latency_ms=reply.timestamp - question.timestamp,
        timestamp_ms=question.timestamp,
    )


def _tool_trace(call: ToolCallRecord) -> ToolTrace:
    return ToolTrace(
        tool_name=call.tool_name,
        arguments=call.arguments,
        success=call.success,
        final_data=call.result,
        error=call.error or None,
    )


def now() -> int:
    """Return the time in ms."""
    return int(time.time() * 1000)
