"""The updates of working memory in one turn of an agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jazzmine.core.working_memory import (
    ActiveFlowState,
    PendingConfirmation,
    Slot,
    ToolCallRecord,
    TurnCache,
)

Step = tuple[str, tuple[Any, ...]]
"""The name of a store's method, and its arguments after the conversation id."""

ENDINGS = ("complete_flow", "cancel_flow", "fail_flow")


def turn(number: int) -> Iterator[Step]:
    """Return every kind of update, in an order in which each of them applies."""
    yield "begin_turn", (turn_cache(number),)
    yield "start_flow", (_flow(number),)
    yield "register_slots", (_slots(),)
    yield "collect_slot", ("order_id", "47-11", "an order number has no dash")
    yield "collect_slot", ("order_id", "4711")
    yield "collect_slot", ("reason", "arrived damaged, the box was open")
    for _ in range(3):
        yield "record_tool_call", (tool_call(number),)
    yield "advance_sequential_step", ({"order": {"id": "4711", "state": "delivered"}},)
    yield "record_branch_result", ("branch_1", {"refund": 39.9})
    yield "set_condition_branch", ("if_true",)
    yield "request_confirmation", (_confirmation(number),)
    yield "confirm_action", ()
    yield ENDINGS[number % len(ENDINGS)], ()
    yield "end_turn", ("Your refund is on its way. " * 8, "refund_done", "A refund")


def turn_cache(number: int) -> TurnCache:
    """Return the data of a turn as an agent provides it: a few kilobytes of text."""
    episodes = [
        {"id": f"episode-{n}", "short_summary": "The customer asked about a parcel. " * 4}
        for n in range(number, number + 5)
    ]
    return TurnCache(
        turn_number=number,
        enhanced_query="The customer wants a refund for order 4711, which arrived damaged.",
        intent="refund",
        sentiment_score=-0.4,
        is_continuation=number % 4 != 0,
        raw_entities=[
            {"name": "order", "attributes": ["4711", "parcel"]},
            {"name": f"article {number % 9}", "attributes": ["blue"]},
        ],
        retrieved_same_conv_episodes=episodes[:3],
        retrieved_prev_conv_episodes=episodes[3:],
        retrieved_semantic_terms=[{"term": "refund", "definition": "Money back. " * 6}],
        combined_flow_prompt="Ask for the order's number and the reason, then refund. " * 20,
        selected_flow_ids=["refund"],
        flow_candidates=[{"id": "refund", "score": 0.93}, {"id": "order_status", "score": 0.41}],
    )


def tool_call(number: int) -> ToolCallRecord:
    return ToolCallRecord(
        tool_name="lookup_order",
        arguments={"order_id": "4711", "fields": ["state", "total", "items"]},
        result={"state": "delivered", "total": 39.9, "items": [{"sku": "A-17", "count": 2}]},
        result_summary="Order 4711 was delivered on Monday.",
        turn_number=number,
        step=0,
    )


def _flow(number: int) -> ActiveFlowState:
    return ActiveFlowState(
        flow_id="refund",
        flow_name="Refund an order",
        flow_type="sequentialflow",
        started_at_turn=number,
        tools_required=["lookup_order", "refund_order"],
        total_steps=3,
        branch_results={"branch_1": None, "branch_2": None},
        condition_expr="order.total < 50",
    )


def _slots() -> list[Slot]:
    return [
        Slot(name="order_id", description="The order's number", type="str"),
        Slot(name="reason", description="Why it comes back", type="str"),
        Slot(name="comment", description="Anything else", type="str", required=False),
    ]


def _confirmation(number: int) -> PendingConfirmation:
    return PendingConfirmation(
        flow_id="refund",
        action_description="Refund 39.90 for order 4711",
        action_payload={"order_id": "4711", "amount": 39.9},
        requested_at_turn=number,
    )
