"""Working memories and transitions for the suites of both APIs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from pydantic import ValidationError

from jazzmine.core.working_memory import (
    ActiveFlowState,
    PendingConfirmation,
    Slot,
    ToolCallRecord,
    TurnCache,
    WorkingMemory,
)

NAN = float("nan")


@dataclass(frozen=True)
class Update:
    """A transition's name, and a function that returns new arguments for each call."""

    name: str
    arguments: Callable[[], tuple[Any, ...]] = tuple

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{self.name}{self.arguments()!r}"

    def on(self, store: Any, cid: Any) -> Any:
        """Call the store's method, and return its result."""
        return getattr(store, self.name)(cid, *self.arguments())

    def on_memory(self, memory: WorkingMemory) -> bool:
        """Call the method of the working memory itself."""
        applied: bool = getattr(memory, self.name)(*self.arguments())
        return applied


@dataclass(frozen=True, repr=False)
class InvalidUpdate(Update):
    """A transition with arguments that it refuses."""

    error: type[Exception] = ValidationError
    what: str = ""

    def __str__(self) -> str:
        return f"{self.name}-{self.what}"


def a_turn() -> TurnCache:
    return TurnCache(
        2,
        enhanced_query="red shoes, size 42",
        intent="buy",
        is_continuation=False,
        raw_entities=[{"name": "shoes", "attributes": ["red", "size 42"]}],
    )


def a_flow() -> ActiveFlowState:
    return ActiveFlowState(
        "flow-1",
        "order",
        "parallelflow",
        started_at=1_700_000_000.25,
        total_steps=2,
        branch_results={"branch_1": None, "branch_2": None},
        condition_expr="in_stock",
    )


def a_call() -> ToolCallRecord:
    return ToolCallRecord(
        "search",
        {"query": "shoes", "filters": ["red"]},
        result={"items": [1, 2]},
        result_summary="2 found",
        called_at=1_700_000_001.5,
    )


def a_slot(name: str) -> Slot:
    return Slot(name, f"the {name}", "str")


def a_question() -> PendingConfirmation:
    return PendingConfirmation(
        "flow-1",
        "order the shoes",
        {"sku": ["A-1"]},
        1,
        requested_at=1_700_000_002.0,
        id="question-1",
    )


def busy(cid: str) -> WorkingMemory:
    """A working memory to which every transition applies; it was never saved."""
    memory = WorkingMemory(cid, "user", "agent")
    memory.begin_turn(TurnCache(1, intent="browse", is_continuation=False))
    memory.start_flow(a_flow())
    memory.register_slots([a_slot("size"), a_slot("colour")])
    memory.request_confirmation(a_question())
    return memory


UPDATES = [
    Update("begin_turn", lambda: (a_turn(),)),
    Update("end_turn", lambda: ("Which colour?", "ask", "shoes")),
    Update("start_flow", lambda: (ActiveFlowState("flow-2", "refund", "flow", started_at=1.0),)),
    Update("advance_sequential_step", lambda: ({"found": [1, 2]},)),
    Update("record_branch_result", lambda: ("branch_1", {"price": 9.5})),
    Update("set_condition_branch", lambda: ("yes",)),
    Update("record_tool_call", lambda: (a_call(),)),
    Update("register_slots", lambda: ([a_slot("size"), a_slot("address")],)),
    Update("collect_slot", lambda: ("size", {"eu": 42})),
    Update("clear_slot", lambda: ("size",)),
    Update("suspend_flow"),
    Update("request_confirmation", lambda: (a_question(),)),
    Update("confirm_action"),
    Update("complete_flow"),
    Update("cancel_flow"),
    Update("fail_flow"),
]

# These transitions need a flow or a confirmation, and a new working memory has neither.
NOT_APPLYING_UPDATES = [
    update
    for update in UPDATES
    if update.name not in ("begin_turn", "end_turn", "start_flow", "request_confirmation")
]


def spoiled_call() -> ToolCallRecord:
    call = a_call()
    call.arguments["price"] = NAN
    return call


def spoiled_flow() -> ActiveFlowState:
    flow = a_flow()
    flow.step_results.append({"live": object()})
    return flow


INVALID_UPDATES = [
    InvalidUpdate("begin_turn", lambda: ({"turn_number": 2},), TypeError, "dict"),
    InvalidUpdate("end_turn", lambda: ("\ud800", "ask"), what="surrogate"),
    InvalidUpdate("end_turn", lambda: ("Hello", None), what="none"),
    InvalidUpdate("start_flow", lambda: (a_turn(),), TypeError, "other-record"),
    InvalidUpdate("start_flow", lambda: (spoiled_flow(),), what="live-object"),
    InvalidUpdate("advance_sequential_step", lambda: ({"price": NAN},), what="nan"),
    InvalidUpdate("advance_sequential_step", lambda: ({1: "one"},), what="key"),
    InvalidUpdate("record_branch_result", lambda: ("branch_1", {1, 2}), what="set"),
    InvalidUpdate("set_condition_branch", lambda: (True,), what="bool"),
    InvalidUpdate("record_tool_call", lambda: (None,), TypeError, "none"),
    InvalidUpdate("record_tool_call", lambda: (spoiled_call(),), what="nan"),
    InvalidUpdate("register_slots", lambda: ([a_slot("new"), "name"],), TypeError, "str"),
    InvalidUpdate("collect_slot", lambda: ("size", 2**63), what="big-integer"),
    InvalidUpdate("collect_slot", lambda: ("size", float("inf")), what="infinity"),
    InvalidUpdate("clear_slot", lambda: (["size"],), what="list"),
    InvalidUpdate("forget_entity", lambda: ({"name": "Ada"},), TypeError, "dict"),
    InvalidUpdate("request_confirmation", lambda: ("sure?",), TypeError, "str"),
    InvalidUpdate("confirm_action", lambda: (a_question(),), TypeError, "question"),
    InvalidUpdate("resume_flow", lambda: (a_flow(),), TypeError, "flow"),
    InvalidUpdate("complete_flow", lambda: (a_flow(),), TypeError, "flow"),
]


def timeless(memory: WorkingMemory) -> dict[str, Any]:
    """Return a working memory as a dict without what the store sets for each save."""
    of_the_store = {"created_at": 0.0, "last_updated": 0.0, "version_token": "", "confirmed": None}
    return {**memory.to_dict(), **of_the_store}


def clear_deeply(value: object) -> None:
    """Empty every list and dict in place, at any depth."""
    if isinstance(value, dict):
        clear_deeply(list(value.values()))
        value.clear()
    elif isinstance(value, (list, tuple)):
        for item in value:
            clear_deeply(item)
        if isinstance(value, list):
            value.clear()
    elif is_dataclass(value):
        for field in fields(value):
            clear_deeply(getattr(value, field.name))
