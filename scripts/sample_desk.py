"""Fill stores with what the order desk of the demo says in some weeks, for pictures of it.

The rules of `examples/order_desk` answer in them. They call no model, and their tools take no time:
the traces get calls of models, tokens, costs and times that are invented, the same on every run.

    scripts/sample_desk.py messages.db [END]

writes to SQLite: messages and working memory in one file, up to END (an ISO time, now by default).
"""

from __future__ import annotations

import random
import sys
import time
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "order_desk"))

import rules
from jazzmine import Conversation, FlowEvent, LLMCallRecord, Message, TurnTrace, WorkingMemory
from jazzmine.sync import MessageStore, WorkingMemoryStore

__all__ = ["NEWEST", "fill"]

NEWEST = "desk-0001"

DAY = 86_400_000

USERS = ("ada", "grace", "linus", "margaret", "edsger", "barbara", "alan", "katherine")
TITLES = ("A kettle comes back", "Where is my order?", "Opening hours", "A damaged parcel")
DIALOGS = (
    (
        "Hello, where is my order 4711?",
        "It is not what I hoped for, I want to send it back.",
        "Because.",
        "It came damaged.",
        "By the way, when do you open on Saturday?",
        "Good. Pick it up on 2026-12-01, please.",
        "Yes, do it.",
    ),
    ("Where is order 4711?",),
    ("When do you open on Saturday?", "And where is my order 4711?"),
    (
        "Has 4711 left already? Where is it?",
        "I want to send it back.",
        "It was the wrong item.",
        "Please pick it up on 2026-12-03.",
        "No, leave it.",
    ),
)
# US dollars for a million tokens of the prompt and of the completion.
PRICES = {"small-1": (0.15, 0.6), "large-2": (2.5, 10.0)}
PROMPT = "You answer for the order desk. Look orders up before you speak of them."
HOURS = """We are open:

| day | hours |
|:--|:--|
| Monday to Friday | 8 to 18 |
| **Saturday** | 9 to 16 |
"""
UNTITLED = "desk-0003"
FAILED_CALL = f"{NEWEST}-2"

# The newest conversation waits for an answer.
UNFINISHED = (*DIALOGS[0][:4], "Good. Pick it up on 2026-12-01, please.")


def fill(path: str | Path, end: int, conversations: int = 140) -> None:
    """Store conversations of five weeks, the newest of which waits for a confirmation.

    Args:
        path: the file of the database.
        end: when the newest one was updated, in ms.
    """
    with (
        MessageStore.initialize({"storage": "sqlite", "path": str(path), "search": True}) as store,
        WorkingMemoryStore.initialize({"storage": "sqlite", "path": str(path)}) as memory,
    ):
        for number in range(conversations, 0, -1):
            chance = random.Random(number)
            days = 0 if number == 1 else 35 * (number - 1) / conversations
            began = (
                end - round((days + chance.random() * 0.4) * DAY) if number > 1 else end - 420_000
            )
            kind = chance.choices(range(len(DIALOGS)), (4, 5, 3, 2))[0] if number > 1 else 0
            dialog = UNFINISHED if number == 1 else DIALOGS[kind]
            desk = _Desk(store, f"desk-{number:04}", chance, began)
            desk.title = TITLES[kind] if desk.conversation_id != UNTITLED else ""
            for text in dialog:
                desk.turn(text)
            if number == 1:
                memory.save(desk.memory)


class _Desk:
    """A conversation that is told."""

    def __init__(
        self, store: MessageStore, conversation_id: str, chance: random.Random, began: int
    ):
        self.conversation_id = conversation_id
        self.user = "ada" if conversation_id == NEWEST else chance.choice(USERS)
        self.agent = "order-desk" if chance.random() < 0.8 else "night-desk"
        self.title = ""
        self.memory = WorkingMemory(conversation_id, self.user, rules.AGENT)
        self._store, self._chance, self._began, self._now = store, chance, began, began

    def turn(self, text: str) -> None:
        """Hold a turn, and store it."""
        memory, chance = self.memory, self._chance
        message_id = f"turn-{memory.turn_number + 1}"
        memory.begin_turn(rules.understand(message_id, text, memory))
        recorder = rules.recorded(message_id, text, memory)
        question, *_, answer = recorder.messages
        reply = answer.original_content
        if answer.intent == "opening_hours":
            reply = HOURS + reply.partition("Saturdays.")[2]
        elif answer.intent == "order_status":
            reply = reply.replace("Order 4711", "Order **4711**")
        memory.end_turn(reply, answer.intent)
        trace = self._trace(recorder.trace, self._now, text, reply)
        asked = self._own(question, self._now)
        answered = self._own(answer, trace.ended_at_ms)
        answered.original_content, answered.metadata = reply, {}
        answered.invoked_tools = [tool.tool_name for tool in trace.tool_traces] or None
        self._store.store_turn(
            conversation=Conversation(
                id=self.conversation_id,
                user_id=self.user,
                agent_id=self.agent,
                title=self.title,
                created_at=self._began,
                last_updated_at=trace.ended_at_ms,
            ),
            messages=[asked, answered],
            trace=trace,
        )
        self._now = trace.ended_at_ms + chance.randrange(15_000, 70_000)

    def _own(self, message: Message, timestamp: int) -> Message:
        fields = {
            "id": f"{self.conversation_id}-{self.memory.turn_number}-{message.role.value}",
            "conversation_id": self.conversation_id,
            "user_id": self.user,
            "timestamp": timestamp,
        }
        return message.model_copy(update=fields)

    def _trace(self, trace: TurnTrace, began: int, text: str, reply: str) -> TurnTrace:
        chance, number = self._chance, trace.turn_number
        sent = [{"role": "system", "content": PROMPT}, {"role": "user", "content": text}]
        answers = {
            "enhancement": {"query": text, "orders": trace.detected_entities},
            "flow_selection": {"intent": trace.detected_intent},
            "agent_loop": {"role": "assistant", "content": reply},
        }
        calls, now = [], began + 40
        for purpose in ("enhancement", "flow_selection", "agent_loop"):
            model = "large-2" if purpose == "agent_loop" else "small-1"
            ms = chance.randrange(180, 420) if model == "small-1" else chance.randrange(600, 1_900)
            prompt, completion = chance.randrange(250, 900), chance.randrange(15, 160)
            if purpose == "agent_loop" and f"{self.conversation_id}-{number}" == FAILED_CALL:
                limited = LLMCallRecord(
                    purpose=purpose,
                    model=model,
                    latency_ms=210,
                    timestamp_ms=now,
                    success=False,
                    error="RateLimitError: 429, try again in 0.4 s",
                    input=sent,
                )
                calls.append(limited)
                trace.errors.append(f"{model}: {limited.error}")
                now += 640
            price = PRICES[model]
            calls.append(
                LLMCallRecord(
                    purpose=purpose,
                    model=model,
                    prompt_tokens=prompt,
                    completion_tokens=completion,
                    total_tokens=prompt + completion,
                    cached_prompt_tokens=240 if purpose == "agent_loop" and number > 1 else 0,
                    cost_usd=(prompt * price[0] + completion * price[1]) / 1_000_000,
                    latency_ms=ms,
                    timestamp_ms=now,
                    input=sent,
                    output=answers[purpose],
                )
            )
            now += ms + 5
        for tool in trace.tool_traces:
            tool.started_at_ms, tool.total_latency_ms = now, chance.randrange(25, 900)
            now += tool.total_latency_ms
            if self.conversation_id != NEWEST and chance.random() < 0.06:
                tool.success, tool.final_data = False, None
                tool.error = "TimeoutError: the warehouse did not answer within 5 s"
                trace.errors.append(f"{tool.tool_name}: {tool.error}")
        if number == 2 and trace.detected_intent == "return_order":
            trace.flow_events.append(
                FlowEvent(
                    flow_id="return-order",
                    flow_name="Return an order",
                    flow_type="returnorder",
                    event="started",
                )
            )
        prompt = sum(call.prompt_tokens for call in calls)
        completion = sum(call.completion_tokens for call in calls)
        prefix = self.conversation_id
        return trace.model_copy(
            update={
                "id": f"{prefix}-{number}-trace",
                "message_id": f"{prefix}-{number}-assistant",
                "conversation_id": prefix,
                "user_id": self.user,
                "agent_id": self.agent,
                "started_at_ms": began,
                "ended_at_ms": now + 20,
                "total_latency_ms": now + 20 - began,
                "llm_calls": calls,
                "total_prompt_tokens": prompt,
                "total_completion_tokens": completion,
                "total_tokens": prompt + completion,
            }
        )


if __name__ == "__main__":
    given = datetime.fromisoformat(sys.argv[2]).timestamp() if len(sys.argv) > 2 else time.time()
    fill(sys.argv[1], round(given * 1000))
