"""The rules of the order desk, in place of a language model.

The rules only read and change the working memory, and do no I/O, so that the async and the sync
half of the demo share them unchanged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date

from jazzmine import (
    ActiveFlowState,
    Conversation,
    Entity,
    PendingConfirmation,
    Slot,
    ToolCallRecord,
    TurnCache,
    TurnRecorder,
    WorkingMemory,
)

CONVERSATION, USER, AGENT = "desk-1", "ada", "order-desk"
ORDERS = {"4711": "a blue kettle, delivered on Tuesday"}
REASONS = ("damaged", "wrong item", "changed my mind")
CANCELLATIONS = ("never mind", "forget it")


@dataclass
class ReturnOrder:
    """The flow that returns an order; the name of the class is the flow's type."""

    id: str = "return-order"
    name: str = "Return an order"
    tools: list[str] = field(default_factory=lambda: ["book_pickup", "create_return"])


@dataclass
class Reply:
    """The answer of the agent, and what its model was given of the tool calls."""

    text: str
    intent: str
    tool_sections: str = ""


def understand(message_id: str, text: str, memory: WorkingMemory) -> TurnCache:
    """Return the user's intent; "it" is the order that was mentioned last."""
    orders = re.findall(r"\b\d{4}\b(?!-)", text)
    if not orders and re.search(r"\bit\b", text) and memory.salient_entities:
        orders = [memory.salient_entities[0].name]
    intent = _intent(text, memory)
    return TurnCache(
        message_id=message_id,
        enhanced_query=text,
        intent=intent,
        is_continuation=intent != "opening_hours",
        is_cancellation=text.lower().startswith(CANCELLATIONS),
        raw_entities=[{"name": order, "attributes": [ORDERS.get(order, "?")]} for order in orders],
    )


def _intent(text: str, memory: WorkingMemory) -> str:
    words = text.lower()
    if "open" in words:
        return "opening_hours"
    if memory.has_pending_confirmation:
        return "confirm"
    if memory.pending_slots:
        return "give_detail"
    return "return_order" if "back" in words else "order_status"


def answer(memory: WorkingMemory, text: str) -> Reply:
    """Return the answer of the current turn, and update the working memory."""
    assert memory.current_turn is not None
    intent = memory.current_turn.intent
    if intent == "opening_hours":
        return Reply(f"We are open from 9 to 16 on Saturdays. {_next_question(memory)}", intent)
    if intent == "order_status":
        return Reply(_look_up(memory), intent)
    if intent == "return_order":
        order = _order(memory)
        if order not in ORDERS:
            return Reply(_look_up(memory), intent)
        memory.start_flow(ActiveFlowState.from_flow(ReturnOrder(), memory.turn_number))
        memory.register_slots(
            [
                # What the flow is about: an entity is dropped when it was not mentioned for long.
                Slot("order", "the order", "text", collected=True, value=order),
                Slot("reason", f"why it comes back: {', '.join(REASONS)}", "choice"),
                Slot("pickup", "the day to pick it up, as YYYY-MM-DD", "date"),
            ]
        )
        return Reply(f"I can take that back. {_next_question(memory)}", intent)
    if intent == "give_detail":
        return Reply(_take_detail(memory, text), intent)
    return _conclude(memory, text)


def _look_up(memory: WorkingMemory) -> str:
    order = _order(memory)
    if order not in ORDERS:
        return "Which order is it about? Please tell me its four digits."
    found = ORDERS[order]
    memory.record_tool_call(
        ToolCallRecord("look_up_order", {"order": order}, result=found, result_summary=found)
    )
    return f"Order {order} is {found}."


def _order(memory: WorkingMemory) -> str:
    """Return the order that was mentioned last; "" for none."""
    return memory.salient_entities[0].name if memory.salient_entities else ""


def _take_detail(memory: WorkingMemory, text: str) -> str:
    slot = memory.pending_slots[0]
    value, problem = _read_slot(slot.name, text)
    memory.collect_slot(slot.name, value, validation_error=problem)
    if memory.pending_slots:
        return _next_question(memory)
    free = "a van is free that day"
    memory.record_tool_call(
        ToolCallRecord("book_pickup", {"day": value}, result=free, result_summary=free)
    )
    assert memory.active_flow is not None
    order = memory.active_flow.collected_slot_values["order"]
    question = PendingConfirmation(
        flow_id="return-order",
        action_description=f"take order {order} back and pay it out",
        action_payload={"order": order},
    )
    memory.request_confirmation(question)
    return f"Shall I {question.action_description}? This cannot be undone."


def _read_slot(name: str, text: str) -> tuple[str | None, str]:
    if name == "reason":
        reason = next((reason for reason in REASONS if reason in text.lower()), None)
        return reason, "" if reason else f"Sorry, that is none of: {', '.join(REASONS)}."
    day = re.search(r"\d{4}-\d{2}-\d{2}", text)
    try:
        return date.fromisoformat(day.group()).isoformat() if day else None, ""
    except ValueError:
        return None, "Sorry, there is no such day."


def _next_question(memory: WorkingMemory) -> str:
    if not memory.pending_slots:
        return "Anything else?"
    slot = memory.pending_slots[0]
    return f"{slot.validation_error} Please tell me {slot.description}.".strip()


def _conclude(memory: WorkingMemory, text: str) -> Reply:
    if not text.lower().startswith("yes"):
        memory.cancel_flow()
        return Reply("Then nothing was done.", "declined")
    assert memory.pending_confirmation is not None
    payload = memory.pending_confirmation.action_payload
    memory.confirm_action()
    memory.record_tool_call(
        ToolCallRecord(
            "create_return", payload, result={"label": "R-1"}, result_summary="label R-1"
        )
    )
    sections = memory.build_prompt_tool_sections()
    memory.complete_flow()
    return Reply("Done: your return label is R-1.", "return_created", sections)


# The records of a turn.


def conversation() -> Conversation:
    """Return the record of the conversation."""
    return Conversation(id=CONVERSATION, user_id=USER, agent_id=AGENT, title="An order comes back")


def reply_id(message_id: str) -> str:
    """Return the id of the answer to a message."""
    return f"{message_id}-reply"


def recorded(message_id: str, text: str, wm: WorkingMemory) -> TurnRecorder:
    """Answer a message of the user, and note how.

    Args:
        message_id: its id.
        text: what the user wrote.
        wm: the working memory in the message's turn, which is changed.
    """
    turn = wm.current_turn
    assert turn is not None
    recorder = TurnRecorder(
        conversation_id=CONVERSATION, user_id=USER, agent_id=AGENT, turn_number=wm.turn_number
    )
    entities = [Entity(**entity) for entity in turn.raw_entities]
    recorder.user(text, id=message_id, intent=turn.intent, entities=entities)
    reply = answer(wm, text)
    for call in turn.tool_calls:
        with recorder.tool_call(call.tool_name, call.arguments) as made:
            made.result(call.result)
    recorder.assistant(
        reply.text,
        id=reply_id(message_id),
        intent=reply.intent,
        metadata={"tool_sections": reply.tool_sections},
    )
    return recorder


def finish(wm: WorkingMemory, text: str) -> None:
    """Bring the working memory up to date after a turn was stored."""
    reply = answer(wm, text)
    wm.end_turn(reply.text, reply.intent)
