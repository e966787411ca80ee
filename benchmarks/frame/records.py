"""Conversations and messages as an agent stores them, the same on every run.

A stored message is 0.7 to 1 KB of JSON. Message i belongs to conversation i modulo their number,
so that conversations are interleaved in the file as they are in a service.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator

from jazzmine.core.message_store import Conversation, Entity, Message, MessageRole
from jazzmine.core.message_store.models import LLMCallRecord, ScriptGenAttempt, ToolTrace, TurnTrace

START = 1_700_000_000_000
AGENT = "agent-" + str(uuid.UUID(int=random.Random("agent").getrandbits(128)))

PROSE = (
    "order invoice refund parcel delivery address tracking number account the my a is was not yet "
    "please could you tell when where it arrived late damaged yesterday café Zürich and with still "
    "waiting for since last week thank change cancel status check again today see its customer"
)
WORDS = PROSE.split()


def _id(kind: str, number: int) -> str:
    return str(uuid.UUID(int=random.Random(f"{kind} {number}").getrandbits(128), version=4))


def conversation_id(number: int) -> str:
    return _id("conversation", number)


def message_id(number: int) -> str:
    return _id("message", number)


def conversations(count: int) -> list[Conversation]:
    return [
        Conversation(
            id=conversation_id(number),
            user_id=_id("user", number),
            agent_id=AGENT,
            title=f"Where is order {4711 + number}?",
            created_at=START,
            last_updated_at=START + number,
        )
        for number in range(count)
    ]


def messages(start: int, stop: int, conversations: int) -> list[Message]:
    """Messages number `start` to `stop`, spread over so many conversations."""
    return list(_messages(start, stop, conversations))


def _messages(start: int, stop: int, conversations: int) -> Iterator[Message]:
    people = [(conversation_id(n), _id("user", n)) for n in range(conversations)]
    for number in range(start, stop):
        chance = random.Random(number)
        conversation, user = people[number % conversations]
        by_user = number // conversations % 2 == 0
        yield (_question if by_user else _reply)(number, conversation, user, chance)


def _question(number: int, conversation: str, user: str, chance: random.Random) -> Message:
    text = _prose(chance, 20)
    entities = [Entity(name="order", attributes=[str(4711 + number), "parcel"])]
    return Message(
        id=message_id(number),
        conversation_id=conversation,
        user_id=user,
        role=MessageRole.USER,
        original_content=text,
        enhanced_message=f"The customer says: {text}",
        sentiment_score=round(chance.uniform(-1, 1), 3),
        intent=chance.choice(["order_status", "refund", "small_talk"]),
        entities=entities if chance.random() < 0.4 else [],
        is_continuation=chance.random() < 0.8,
        timestamp=START + number * 700,
    )


def _reply(number: int, conversation: str, user: str, chance: random.Random) -> Message:
    return Message(
        id=message_id(number),
        conversation_id=conversation,
        user_id=user,
        role=MessageRole.ASSISTANT,
        original_content=_prose(chance, 35),
        intent="answer",
        timestamp=START + number * 700,
        invoked_flows=["order_desk"],
        invoked_tools=["lookup_order"] if chance.random() < 0.5 else None,
        reasoning_steps=["The order number is known.", _prose(chance, 12)],
    )


def trace(number: int, conversations: int) -> TurnTrace:
    """The trace of message number `number`: two calls of a model, and one of a tool."""
    started = START + number * 700
    return TurnTrace(
        id=_id("trace", number),
        message_id=message_id(number),
        conversation_id=conversation_id(number % conversations),
        user_id=_id("user", number % conversations),
        agent_id=AGENT,
        turn_number=number // conversations,
        started_at_ms=started,
        ended_at_ms=started + 900,
        total_latency_ms=900,
        total_tokens=1_200,
        llm_calls=[
            LLMCallRecord(purpose="agent_loop", model="m-1", total_tokens=600, timestamp_ms=started)
            for _ in range(2)
        ],
        tool_traces=[
            ToolTrace(
                task_index=1,
                sandbox="orders",
                mode="plan",
                description="Look the order up.",
                generation_attempts=[ScriptGenAttempt(attempt=1, success=True)],
                final_script="result = lookup_order('4711')",
                success=True,
                final_data={"order": {"id": "4711", "items": [{"sku": "a", "count": 2}]}},
            )
        ],
        reasoning_steps=["The order number is known."],
        detected_intent="order_status",
    )


def _prose(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words)).capitalize() + "."
