"""Copy working memories that were validated before, without validating them again."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from jazzmine.records.memory_base import MemoryRecord, shallow_copy
from jazzmine.records.types import copy_json
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["deep_copy", "partial_copy"]

AnyRecord = TypeVar("AnyRecord", bound=MemoryRecord)
Copier = Callable[[Any], Any]

_CONTAINERS = (list, dict)

_new = object.__new__


def partial_copy(memory: WorkingMemory) -> WorkingMemory:
    """Return a copy for a transition to change.

    It shares with the original the records that no transition changes in place, such as tool
    calls and ended flows. So it must not be passed to the caller.
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
    copied: AnyRecord = _record_copier(kind)(record)
    return copied


@cache
def _record_copier(kind: type[Any]) -> Copier:
    """Return the function that copies a class of records."""
    copiers = {name: _copier(hint) for name, hint in get_type_hints(kind).items()}
    names = kind.__pydantic_fields__
    parts = [(name, copier) for name in names if (copier := copiers[name]) is not None]
    return partial(_copy_record, parts) if parts else shallow_copy


def _copier(hint: Any) -> Copier | None:
    """Return the function that copies values of a type, or None for an immutable type."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return copy_json
    if _is_record(hint):
        return _record_copier(hint)
    if origin in (Union, types.UnionType):
        return _copier(parts[0])  # the other part is None, which _copy_record skips
    if origin not in (list, dict):
        return None
    if parts[-1] is Any:
        return copy_json
    part = _copier(parts[-1])
    if part is None:
        return list.copy if origin is list else dict.copy
    return partial(_copy_list if origin is list else _copy_dict, part)


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, MemoryRecord)


def _copy_record(parts: Sequence[tuple[str, Copier]], record: MemoryRecord) -> MemoryRecord:
    copied = _new(type(record))
    values = copied.__dict__
    values.update(record.__dict__)
    for name, copy in parts:
        value = values[name]
        if value:
            values[name] = copy(value)
        elif type(value) in _CONTAINERS:
            values[name] = value.copy()
    return copied


def _copy_list(copy: Copier, items: list[Any]) -> list[Any]:
    return [copy(item) for item in items]


def _copy_dict(copy: Copier, items: dict[str, Any]) -> dict[str, Any]:
    return {key: copy(item) for key, item in items.items()}
