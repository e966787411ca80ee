"""Several clients append, pop and rewind in one conversation; the results are linearizable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jazzmine.config import JSONStoreConfig
from jazzmine.core import message_store as async_messages
from jazzmine.records.base import Snapshot
from jazzmine.records.conversation_log import Newest, messages_to_append
from jazzmine.sync.message_store import AnyMessage, JSONMessageStore, Message
from tests.faults.linearizability import Operation, TooHardError, bounded, is_linearizable
from tests.faults.log_histories import LOG_READS, LogRecorder, log_model
from tests.faults.sizes import report
from tests.faults.test_histories import (
    CALLS,
    CANCELLED,
    CLIENTS,
    ROUNDS,
    at,
    call_at_once,
    call_in_processes,
    faults,
    kind,
    prepare,
    prepare_async,
)

# PyMongo, stopped while it connects, may leave the socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)

STORES = ["json", "sqlite", "postgres", "mongodb"]


def clients(seed: int) -> list[LogRecorder]:
    return [LogRecorder(seed * 100 + number) for number in range(1, CLIENTS + 1)]


def check(recorders: Sequence[LogRecorder], *, one_store: bool = True) -> int:
    """Fail unless some order of all calls explains what each of them returned.

    Args:
        one_store: whether all used one store, which keeps what it gave up from taking effect once
            a later call has returned.

    Returns:
        How many calls there were; 0 if it would take too long to find an order.
    """
    history: list[Operation] = [one for recorder in recorders for one in recorder.history]
    assert len(history) > CLIENTS * CALLS / 2
    if one_store:
        history = bounded(history)
    try:
        possible = is_linearizable(history, (), log_model, reads=LOG_READS)
    except TooHardError:
        return 0
    assert possible, "no order of the calls explains what they returned"
    return len(history)


@pytest.mark.parametrize("name", STORES)
def test_threads_see_one_order_of_all_calls(name: str, tmp_path: Path) -> None:
    total = 0
    for seed in range(ROUNDS):
        with at(name, tmp_path) as (config, proxy), kind(name).initialize(config) as store:
            prepare(name, store)
            recorders = clients(seed)
            with faults(name, proxy):
                call_at_once(recorders, store)
            total += check(recorders)
    report(f"log histories, {name}, {CLIENTS} threads: {total} calls in {ROUNDS}: linearizable")


@pytest.mark.parametrize("name", STORES)
async def test_tasks_see_one_order_of_all_calls(name: str, tmp_path: Path) -> None:
    total = 0
    for seed in range(ROUNDS):
        with at(name, tmp_path) as (config, proxy):
            async with await async_messages.MessageStore.initialize(config) as store:
                await prepare_async(name, store)
                recorders = clients(seed)
                cancelled = CANCELLED[proxy is not None]
                with faults(name, proxy):
                    await asyncio.gather(*(call_many(one, store, cancelled) for one in recorders))
                total += check(recorders)
    report(f"log histories, {name}, {CLIENTS} tasks: {total} calls in {ROUNDS}: linearizable")


async def call_many(recorder: LogRecorder, store: Any, cancelled: float) -> None:
    for _ in range(CALLS):
        await recorder.call_async(store, cancelled)


@pytest.mark.parametrize("name", STORES)
def test_processes_see_one_order_of_all_calls(name: str, tmp_path: Path) -> None:
    total = 0
    for seed in range(ROUNDS):
        with at(name, tmp_path) as (config, proxy):
            with kind(name).initialize(config) as store:
                prepare(name, store)
            recorders = clients(seed)
            call_in_processes(name, config, proxy, recorders)
            total += check(recorders, one_store=False)
    report(f"log histories, {name}, {CLIENTS} processes: {total} calls in {ROUNDS}: linearizable")


class AppendsWithoutALock(JSONMessageStore):
    """Reads what is stored, and stores the messages in a step of its own."""

    def _append(
        self,
        conversation_id: str,
        messages: Sequence[Snapshot[Message]],
        expected_last: str | AnyMessage | None,
    ) -> list[Message]:
        given = [message.record for message in messages]
        known = {message.id: message for message in self.get_messages_by_ids(m.id for m in given)}
        stored = self.get_messages_by_conversation_id(conversation_id)
        newest = Newest(stored[-1].id, stored[-1].timestamp) if stored else None
        new = messages_to_append(given, known, newest, expected_last)
        self._store_messages([Snapshot(message) for message in new])
        return new


class PopsWhatItHasRead(JSONMessageStore):
    """Reads the newest message, and deletes it in a step of its own."""

    def _pop(self, conversation_id: str) -> Message | None:
        stored = self.get_messages_by_conversation_id(conversation_id)
        if stored:
            self._delete_message(stored[-1].id)
        return stored[-1] if stored else None


class RewindsByCounting(JSONMessageStore):
    """Counts the messages to delete, and then deletes as many of the newest."""

    def _rewind(self, conversation_id: str, after: str | None) -> int:
        later = self.get_messages_by_conversation_id(conversation_id, after=after)
        for _ in later:
            super()._pop(conversation_id)
        return len(later)


class SendsAPopAgain(JSONMessageStore):
    """Pops once more if the first reply is lost."""

    def _pop(self, conversation_id: str) -> Message | None:
        super()._pop(conversation_id)
        return super()._pop(conversation_id)


@pytest.mark.parametrize(
    "broken", [AppendsWithoutALock, PopsWhatItHasRead, RewindsByCounting, SendsAPopAgain]
)
def test_a_store_that_works_in_two_steps_is_found_out(
    broken: type[JSONMessageStore], tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="no order of the calls"):
        check_histories_of(broken, tmp_path)


def check_histories_of(broken: type[JSONMessageStore], folder: Path) -> None:
    for seed in range(10):
        store = broken(JSONStoreConfig(path=folder / f"{seed}.json", fsync=False))
        store._open()
        with store:
            prepare("json", store)
            recorders = clients(seed)
            call_at_once(recorders, store)
        check(recorders)
