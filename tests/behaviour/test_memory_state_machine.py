"""Random calls to a store, one after another, against a model of it in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from jazzmine.core.working_memory import WorkingMemory, WorkingMemoryStore
from tests.behaviour.apis import Api, Runner
from tests.behaviour.backends import Backend
from tests.behaviour.memory_model import CIDS, Ending, MemoryModel, cids, ending, outcome, updates
from tests.behaviour.memory_samples import Update, busy, clear_deeply
from tests.behaviour.state_machine import SETTINGS
from tests.mutants import run_machine

pytestmark = pytest.mark.variants


async def change_in_block(
    store: WorkingMemoryStore, cid: str, changes: Sequence[Update], end: Ending
) -> WorkingMemory | None:
    async with store.locked(cid) as memory:
        for change in changes:
            change.on_memory(memory)
        end(memory)
    return await store.get(cid)


class MemoryMachine(RuleBasedStateMachine):
    """Makes each call to the store and to the model, and compares the results."""

    read = Bundle("read")

    def __init__(self, store: Any) -> None:
        super().__init__()
        self.runner = Runner()
        self.store: WorkingMemoryStore = self.runner.run(store)
        self.model = MemoryModel()

    def teardown(self) -> None:
        self.call(self.store.close)
        self.runner.__exit__()

    def call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        return self.runner.run(method(*arguments))

    @initialize()
    def begin_with_some(self) -> None:
        for cid in CIDS[:2]:
            self.start_over(cid)

    @rule(cid=cids)
    def start_over(self, cid: str) -> None:
        self.delete(cid)
        memory = busy(cid)
        self.model.save(deepcopy(memory))

        self.call(self.store.save, memory)

    @rule(cid=cids, user=st.sampled_from(["user", "user", "bob"]))
    def get_or_create(self, cid: str, user: str) -> None:
        was_there = cid in self.model.stored
        expected = outcome(partial(self.model.get_or_create, cid, user, "shop"))

        got = outcome(partial(self.call, self.store.get_or_create, cid, user, "shop"))

        assert got == expected
        if isinstance(got, dict):  # what is returned belongs to the caller
            clear_deeply(self.call(self.store.get_or_create, cid, user, "shop"))
        if not was_there:
            # Its creation time, which the store sets, distinguishes it from one created later.
            self.model.stored[cid].created_at = self.call(self.store.get, cid).created_at

    @rule(cid=cids, changes=st.lists(updates, min_size=2, max_size=8))
    def update(self, cid: str, changes: Sequence[Update]) -> None:
        for change in changes:
            expected = outcome(partial(self.model.update, cid, change))

            got = outcome(partial(self.call, change.on, self.store, cid))

            assert got == expected
            clear_deeply(change.arguments())

    @rule(cid=cids, changes=st.lists(updates, max_size=4), end=ending)
    def change_in_block(self, cid: str, changes: Sequence[Update], end: Ending) -> None:
        expected = outcome(partial(self.model.change_in_block, cid, changes, end))

        got = outcome(partial(self.call, change_in_block, self.store, cid, changes, end))

        assert got == expected

    @rule(target=read, cid=cids)
    def read_to_save_later(self, cid: str) -> Any:
        memory = self.call(self.store.get, cid)

        return multiple() if memory is None else memory

    @rule(target=read, cid=cids, revision=st.integers(0, 3))
    def make_to_save_later(self, cid: str, revision: int) -> WorkingMemory:
        return WorkingMemory(cid, "ann", "shop", revision=revision)

    @rule(memory=read, changes=st.lists(updates, max_size=2))
    def save(self, memory: WorkingMemory, changes: Sequence[Update]) -> None:
        for change in changes:
            outcome(partial(change.on_memory, memory))
        before = memory.revision
        expected = outcome(partial(self.model.save, deepcopy(memory)))

        got = outcome(partial(self.call, self.store.save, memory))

        assert got == expected
        assert memory.revision == (expected["revision"] if isinstance(expected, dict) else before)

    @rule(cid=cids)
    def delete(self, cid: str) -> None:
        expected = self.model.delete(cid)

        got = self.call(self.store.delete, cid)

        assert got == expected

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        for cid in CIDS:
            expected = outcome(partial(self.model.get, cid))
            got = outcome(partial(self.call, self.store.get, cid))
            assert got == expected
        assert self.call(self.store.active_count) == self.model.active_count()


def test_the_store_has_the_results_of_its_model(api: Api, memory_backend: Backend) -> None:
    class BackendMachine(MemoryMachine):
        def __init__(self) -> None:
            self.opened = memory_backend.open_config()
            super().__init__(api.WorkingMemoryStore.initialize(self.opened.__enter__()))

        def teardown(self) -> None:
            super().teardown()
            self.opened.__exit__(None, None, None)

    run_machine(BackendMachine, SETTINGS, api, memory_backend)
