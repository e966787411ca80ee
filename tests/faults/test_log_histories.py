"""Several clients append, pop and rewind in one conversation; the results are linearizable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from jazzmine._sync.clients.sqlite import SQLiteClient
from jazzmine._sync.message_store.json import JSONBackend
from jazzmine.backends.json.database import JSONDatabase
from jazzmine.core import message_store as async_messages
from jazzmine.records.conversation_log import Refusal, not_before
from jazzmine.records.hook_arguments import Append, MessagePage, Turn
from jazzmine.records.rows import Row, row_id
from jazzmine.records.types import MIN_INT
from jazzmine.sync.message_store import ANY, Message, MessageStore
from tests.faults.linearizability import (
    Operation,
    TooHardError,
    bounded,
    is_linearizable,
    with_repetitions,
)
from tests.faults.log_histories import LOG_READS, LogRecorder, log_model
from tests.faults.sizes import report
from tests.faults.test_histories import (
    CALLS,
    CANCELLED,
    CLIENTS,
    REPEATING,
    ROUNDS,
    at,
    call_at_once,
    call_in_processes,
    faults,
    kind,
    prepare,
    prepare_async,
)
from tests.servers import postgres

# PyMongo, stopped while it connects, may leave the socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)

STORES = ["json", "sqlite", "postgres", "mongodb"]


def clients(seed: int) -> list[LogRecorder]:
    return [LogRecorder(seed * 100 + number) for number in range(1, CLIENTS + 1)]


def check(
    recorders: Sequence[LogRecorder],
    *,
    name: str = "",
    one_store: bool = True,
    lost: Sequence[float] = (),
) -> int:
    """Fail unless some order of all calls explains what each of them returned.

    Args:
        name: that of the store.
        lost: when replies were lost.
        one_store: whether all used one store, which keeps what it gave up from taking effect once
            a later write has returned.

    Returns:
        How many calls there were; 0 if it would take too long to find an order.
    """
    history: list[Operation] = [one for recorder in recorders for one in recorder.history]
    assert len(history) > CLIENTS * CALLS / 2
    if name in REPEATING:
        history = with_repetitions(history, LOG_READS, lost)
    elif one_store:
        # A write that was given up is done before a later one, and not before a read.
        history = bounded(history, lambda _, other: other.name not in LOG_READS)
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
            with faults(name, proxy) as lost:
                call_at_once(recorders, store)
            total += check(recorders, name=name, lost=lost)
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
                with faults(name, proxy) as lost:
                    await asyncio.gather(*(call_many(one, store, cancelled) for one in recorders))
                total += check(recorders, name=name, lost=lost)
    report(f"log histories, {name}, {CLIENTS} tasks: {total} calls in {ROUNDS}: linearizable")


async def call_many(
    recorder: LogRecorder, store: Any, cancelled: float, latest: float = 0.003
) -> None:
    for _ in range(CALLS):
        await recorder.call_async(store, cancelled, latest=latest)


async def test_tasks_that_are_cancelled_during_slow_commits_see_one_order_of_all_calls() -> None:
    commit = 0.02
    slow = f"-c commit_delay={round(commit * 1e6)} -c commit_siblings=0"
    total = 0
    with postgres.Server("18", fsync=True) as server:
        dsn = postgres.changed(server.dsn, options=slow)
        config = {"storage": "postgres", "dsn": dsn, "pool_max": 4}
        for seed in range(ROUNDS):
            async with await async_messages.MessageStore.initialize(config) as store:
                await prepare_async("postgres", store)
                recorders = clients(seed)
                calls = (call_many(one, store, 0.3, 3 * commit) for one in recorders)
                await asyncio.gather(*calls)
                total += check(recorders, name="postgres")
    report(f"log histories, slow commits, {CLIENTS} tasks: {total} calls: linearizable")


@pytest.mark.parametrize("name", STORES)
def test_processes_see_one_order_of_all_calls(name: str, tmp_path: Path) -> None:
    total = 0
    for seed in range(ROUNDS):
        with at(name, tmp_path) as (config, proxy):
            with kind(name).initialize(config) as store:
                prepare(name, store)
            recorders = clients(seed)
            lost = call_in_processes(name, config, proxy, recorders)
            total += check(recorders, name=name, one_store=False, lost=lost)
    report(f"log histories, {name}, {CLIENTS} processes: {total} calls in {ROUNDS}: linearizable")


class AppendsWithoutALock(JSONBackend):
    """Reads what is newest, and stores the messages in a step of its own."""

    def append(self, given: Append) -> int | Refusal:
        stored = self.get_messages([message.record.id for message in given.messages])
        rows = self.list_messages(MessagePage("conversation_id", given.conversation_id, None, None))
        newest = None if not rows else Message.model_validate_json(rows[-1][1])
        newest_id = None if newest is None else newest.id
        if stored or given.expected_last not in (ANY, newest_id):
            return Refusal(is_known=True, newest_id=newest_id, stored=stored)
        floor = MIN_INT if newest is None else newest.timestamp
        messages = [not_before(floor, message) for message in given.messages]
        self.store(Turn((), messages, [given.trace] if given.trace else []))
        return floor


class PopsWhatItHasRead(JSONBackend):
    """Reads the newest message, and deletes it in a step of its own."""

    def pop(self, conversation_id: str, check: Callable[[Row], object]) -> Row | None:
        rows = self.list_messages(MessagePage("conversation_id", conversation_id, None, None))
        if rows:
            self.delete_message(row_id(rows[-1]))
        return rows[-1] if rows else None


class RewindsByCounting(JSONBackend):
    """Counts the messages to delete, and then deletes as many of the newest."""

    def rewind(self, conversation_id: str, after: str | None) -> int:
        later = self.list_messages(MessagePage("conversation_id", conversation_id, None, after))
        for _ in later:
            super().pop(conversation_id, bool)
        return len(later)


class SendsAPopAgain(JSONBackend):
    """Pops once more if the first reply is lost."""

    def pop(self, conversation_id: str, check: Callable[[Row], object]) -> Row | None:
        super().pop(conversation_id, check)
        return super().pop(conversation_id, check)


@pytest.mark.parametrize(
    "broken", [AppendsWithoutALock, PopsWhatItHasRead, RewindsByCounting, SendsAPopAgain]
)
def test_a_store_that_works_in_two_steps_is_found_out(
    broken: type[JSONBackend], tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="no order of the calls"):
        check_histories_of(broken, tmp_path)


def check_histories_of(broken: type[JSONBackend], folder: Path) -> None:
    for seed in range(10):
        path = str(folder / f"{seed}.json")
        with MessageStore(broken(SQLiteClient(JSONDatabase(path, False, 30.0)))).open() as store:
            prepare("json", store)
            recorders = clients(seed)
            call_at_once(recorders, store)
        check(recorders)
