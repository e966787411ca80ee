"""Copy working memories that were validated before, without validating them again."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from jazzmine.records.memory_base import MemoryRecord, shallow_copy
from jazzmine.records.types import copy_json
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["deep_copy", "partial_copy"]

AnyRecord = TypeVar("AnyRecord", bound=MemoryRecord)
Copier = Callable[[Any], Any]


def partial_copy(memory: WorkingMemory) -> WorkingMemory:
    """Return a copy for a transition to change.

    Copy and original share the records that no transition changes in place, such as tool calls and
    ended flows. So the copy must not be passed to the caller.
    """
    copied = shallow_copy(memory)
    flow, turn, topics = memory.active_flow, memory.current_turn, [*memory.topic_history]
    if flow is not None:
        flow = shallow_copy(flow)
        vars(flow).update(
            step_results=[*flow.step_results],
            branch_results={**flow.branch_results},
            tool_call_history=[*flow.tool_call_history],
            slots={name: shallow_copy(slot) for name, slot in flow.slots.items()},
        )
    if turn is not None:
        turn = shallow_copy(turn)
        vars(turn).update(tool_calls=[*turn.tool_calls])
    if topics:
        topics[-1] = shallow_copy(topics[-1])  # its summary may be set
    vars(copied).update(active_flow=flow, current_turn=turn, topic_history=topics)
    return copied


def deep_copy(record: AnyRecord) -> AnyRecord:
    """Return a copy that shares no mutable object with the original.

    It takes half the time of writing JSON and reading it back.
    """
    kind: Any = type(record)
    copied: AnyRecord = _copier(kind)(record)
    return copied


@cache
def _copier(kind: type[Any]) -> Copier:
    """Return the function that copies records of a class.

    Its code is generated from the types of the fields, as `dataclasses` generates methods: that
    takes two thirds of the time.
    """
    names: dict[str, Any] = {"new": object.__new__, "kind": kind, "copy_json": copy_json}
    lines = ["def copy(record):", "    copied = new(kind)", "    values = copied.__dict__"]
    lines += ["    values.update(record.__dict__)"]
    hints = get_type_hints(kind)
    for name in kind.__pydantic_fields__:
        code = _code(hints[name], f"values[{name!r}]", names)
        if code:
            lines.append(f"    values[{name!r}] = {code}")
    exec("\n".join([*lines, "    return copied"]), names)
    copier: Copier = names["copy"]
    return copier


def _code(hint: Any, value: str, names: dict[str, Any]) -> str:
    """Return an expression that copies a value of a type; "" for an immutable type.

    Args:
        value: an expression for the value.
        names: what the code refers to; more is added.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return f"copy_json({value})"
    if _is_record(hint):
        names[hint.__name__] = _copier(hint)
        return f"{hint.__name__}({value})"
    if origin in (Union, types.UnionType):
        code = _code(parts[0], value, names)  # the other part is None
        return code and f"None if {value} is None else {code}"
    if origin not in (list, dict):
        return ""
    item = _code(parts[-1], "item", names)
    if not item:
        return f"{value}.copy()"
    if item == "copy_json(item)":
        return f"copy_json({value})"
    if origin is list:
        return f"[{item} for item in {value}] if {value} else []"
    return f"{{key: {item} for key, item in {value}.items()}} if {value} else {{}}"


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, MemoryRecord)
