"""A model of a working-memory store, and random calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from pydantic import ValidationError

from jazzmine.core.working_memory import (
    ActiveFlowState,
    PendingConfirmation,
    Slot,
    ToolCallRecord,
    TurnCache,
    WorkingMemory,
)
from jazzmine.errors import IntegrityError, NotFoundError, StaleWorkingMemoryError
from tests.behaviour.memory_samples import INVALID_UPDATES, Update, timeless

# Few ids, so that they repeat, and similar ones, which a store may confuse.
CIDS = ["{c}", "c", "wm:{c}\0"]

EXPECTED_ERRORS = (
    IntegrityError,
    NotFoundError,
    StaleWorkingMemoryError,
    TypeError,
    ValidationError,
)


class BlockError(Exception):
    """Raised in a locked block."""


class MemoryModel:
    """Working memories in a dict; each line is an expectation.

    It uses only the transitions of `WorkingMemory`, which have their own tests.
    """

    def __init__(self) -> None:
        self.stored: dict[str, WorkingMemory] = {}

    def get(self, cid: str) -> WorkingMemory | None:
        stored = self.stored.get(cid)
        return None if stored is None else replace(stored)

    def get_or_create(self, cid: str, user_id: str, agent_id: str) -> WorkingMemory:
        new = WorkingMemory(cid, user_id, agent_id, revision=1)
        stored = self.stored.setdefault(cid, new)
        if stored.user_id != user_id:
            raise IntegrityError
        return replace(stored)

    def delete(self, cid: str) -> bool:
        return self.stored.pop(cid, None) is not None

    def active_count(self) -> int:
        return len(self.stored)

    def save(self, memory: WorkingMemory) -> WorkingMemory:
        stored = self.stored.get(memory.conversation_id)
        identity = None if stored is None else (stored.created_at, stored.revision)
        never_stored = stored is None and memory.revision == 0
        if not never_stored and identity != (memory.created_at, memory.revision):
            raise StaleWorkingMemoryError
        return self._keep(memory)

    def update(self, cid: str, update: Update) -> WorkingMemory:
        memory = self._existing(cid)
        return self._keep(memory) if update.on_memory(memory) else memory

    def change_in_block(self, cid: str, changes: Sequence[Update], end: Ending) -> WorkingMemory:
        memory = self._existing(cid)
        for change in changes:
            change.on_memory(memory)
        end(memory)
        return self._keep(memory)

    def _existing(self, cid: str) -> WorkingMemory:
        if cid not in self.stored:
            raise NotFoundError(cid)
        return replace(self.stored[cid])

    def _keep(self, memory: WorkingMemory) -> WorkingMemory:
        # A record is validated and copied when it is stored.
        kept = replace(memory, revision=memory.revision + 1)
        kept.derive_statuses()
        self.stored[kept.conversation_id] = kept
        return replace(kept)


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call without its times, or the class of its error."""
    try:
        result = call()
        return timeless(result) if isinstance(result, WorkingMemory) else result
    except (*EXPECTED_ERRORS, BlockError) as error:
        return next(kind for kind in (*EXPECTED_ERRORS, BlockError) if isinstance(error, kind))


Ending = Callable[[WorkingMemory], object]


def end_well(memory: WorkingMemory) -> None:
    pass


def end_with_an_error(memory: WorkingMemory) -> None:
    raise BlockError


def end_in_an_invalid_state(memory: WorkingMemory) -> None:
    memory.topic_history.append("no topic")  # type: ignore[arg-type]


ending: st.SearchStrategy[Ending] = st.sampled_from(
    [end_well, end_well, end_with_an_error, end_in_an_invalid_state]
)

cids = st.sampled_from(CIDS)
slot_names = st.sampled_from(["size", "colour", "size", "colour", "unknown"])
branches = st.sampled_from(["branch_1", "branch_2", "branch_1", "branch_2", "unknown"])
turns = st.integers(0, 9)
times = st.floats(0, 2e9)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["NaN", "-Infinity", '"\\', "\0"]
)
keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=3)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=3,
)
objects = st.dictionaries(keys, values, max_size=2)

turn_caches = st.builds(
    TurnCache,
    turns,
    intent=texts,
    is_continuation=st.booleans(),
    is_cancellation=st.sampled_from([False, False, False, True]),
    raw_entities=st.lists(
        st.builds(dict, name=slot_names, attributes=st.lists(texts, max_size=2)), max_size=2
    ),
)
flows = st.builds(
    ActiveFlowState,
    texts.filter(bool),
    texts,
    st.just("parallelflow"),
    started_at=times,
    branch_results=st.builds(dict, branch_1=st.none(), branch_2=st.none()),
    slots=st.builds(dict) | st.builds(dict, size=st.builds(Slot, st.just("size"), texts, texts)),
)
calls = st.builds(
    ToolCallRecord, texts, objects, result=values, success=st.booleans(), called_at=times
)
slots = st.lists(st.builds(Slot, slot_names, texts, texts, required=st.booleans()), max_size=2)
questions = st.builds(PendingConfirmation, texts, texts, objects, turns, requested_at=times)


def _update(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Update]:
    return st.tuples(*arguments).map(lambda given: Update(name, lambda: given))


updates: st.SearchStrategy[Update] = st.one_of(
    _update("begin_turn", turn_caches),
    _update("end_turn", texts, texts, texts),
    _update("start_flow", flows),
    _update("advance_sequential_step", objects),
    _update("record_branch_result", branches, values),
    _update("set_condition_branch", texts),
    _update("record_tool_call", calls),
    _update("register_slots", slots),
    _update("clear_slot", slot_names),
    _update("suspend_flow"),
    _update("collect_slot", slot_names, values, st.just("") | texts),
    _update("request_confirmation", questions),
    _update("confirm_action"),
    _update("complete_flow"),
    _update("cancel_flow"),
    _update("fail_flow"),
    st.sampled_from(INVALID_UPDATES),
)
