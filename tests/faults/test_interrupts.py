"""A signal handler raises in the main thread at any moment; the other threads go on."""

from __future__ import annotations

import random
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from jazzmine.errors import NotFoundError, StoreClosedError
from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.behaviour.samples import conversation, message
from tests.faults.sizes import SOAK, report, size
from tests.faults.test_threads_and_forks import config_of

INTERRUPTS = size(100, 5000)


class InterruptError(BaseException):
    """Raised by the signal handler."""


def interrupt_often(call: Callable[[], object]) -> None:
    """Repeat a call, and interrupt it `INTERRUPTS` times at random moments."""
    chance = random.Random(17)
    is_armed = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        if is_armed:
            raise InterruptError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(INTERRUPTS):
            try:
                is_armed = True
                # Python or Pydantic may swallow an interrupt; then there is another one.
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, 0.003), 0.1)
                while True:
                    call()
            except BaseException:
                is_armed = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Others:
    """Two other threads that make calls all the time.

    Such a call may fail if the interrupted one was committing for it, but it ends.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(2)]
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        while not self._is_over.is_set():
            with suppress(Exception):
                self._call()

    def end(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(240)
        assert not any(thread.is_alive() for thread in self._threads), "a call waits for ever"


# The pools of psycopg and PyMongo lose connections to interrupts.
@pytest.mark.parametrize("name", ["json", "sqlite"])
def test_an_interrupted_call_of_a_message_store_blocks_no_other(name: str, tmp_path: Path) -> None:
    with config_of(name, tmp_path) as config, MessageStore.initialize(config) as store:
        store.store_conversation(conversation("c1"))
        others = Others(lambda: store.store_message(message("other")))

        interrupt_often(lambda: store.store_message(message("own")))
        others.end()

        store.store_message(message("after"))
        assert store.get_message_by_id("after") == message("after")
    report(f"interrupts, {name}: {INTERRUPTS}, none blocks another call")


@pytest.mark.parametrize(("name", "count"), [("json", 300), ("sqlite", 1000)])
def test_an_interrupt_takes_nothing_from_threads_that_are_not_interrupted(
    name: str, count: int, tmp_path: Path
) -> None:
    with config_of(name, tmp_path) as config, MessageStore.initialize(config) as store:
        for owner in ("c1", "c2"):
            store.store_conversation(conversation(owner))
        store.append_messages(
            "c2", [message(f"m{n}", conversation_id="c2", timestamp=n) for n in range(count)]
        )
        popped: list[str] = []

        def pop_all() -> None:
            while (one := store.pop_message("c2")) is not None:
                popped.append(one.id)

        threads = [threading.Thread(target=pop_all) for _ in range(3)]
        for thread in threads:
            thread.start()
        interrupt_often(lambda: store.store_message(message("own")))
        for thread in threads:
            thread.join(240)

        assert sorted(popped) == sorted(f"m{n}" for n in range(count))


# hiredis crashes the process if a signal handler raises while it packs a command.
@pytest.mark.parametrize("name", ["memory", "sqlite", "postgres"])
def test_an_interrupted_call_of_a_working_memory_blocks_no_other(name: str, tmp_path: Path) -> None:
    with config_of(name, tmp_path) as config, WorkingMemoryStore.initialize(config) as store:
        store.get_or_create("c1", "u1", "a1")
        others = Others(lambda: store.end_turn("c1", "other", "greet"))

        interrupt_often(lambda: store.end_turn("c1", "own", "greet"))
        others.end()

        assert store.end_turn("c1", "after", "greet").last_agent_response == "after"
    report(f"interrupts, {name}: {INTERRUPTS}, none blocks another update")


# A handler that calls the store itself. To come at each moment, and not at random ones, it is
# called as a trace function.

STEP = size(7, 1)
"""The handler is called at one of so many lines (in the soak, of so many instructions)."""


def run_and_interrupt(call: Callable[[], object], handler: Callable[[], object], at: int) -> bool:
    """Run a call, and a handler at one of its steps; return False if it has fewer steps."""
    steps = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal steps
        if "jazzmine" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = SOAK, not SOAK
        if event in ("line", "opcode"):
            steps += 1
            if steps == at:
                sys.settrace(None)
                handler()
                return None
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return steps >= at


CALLS_OF_MESSAGES: dict[str, Callable[[MessageStore], object]] = {
    "read": lambda store: store.get_messages_by_conversation_id("c1"),
    "window": lambda store: store.get_immediate_context("c1", 3),
    "write": lambda store: store.store_message(message("own")),
    "append": lambda store: store.append_messages("c1", [message("own")]),
    "erase": lambda store: store.erase_user("nobody"),
    "prune": lambda store: store.prune_conversations(before=0),
    "close": lambda store: store.close(),
}
CALLS_OF_A_MEMORY: dict[str, Callable[[WorkingMemoryStore], object]] = {
    "read": lambda store: store.get("c1"),
    "write": lambda store: store.end_turn("c1", "own", "greet"),
    "update": lambda store: store.update("c1", lambda memory: None),
    "erase": lambda store: store.erase_user("nobody"),
    "close": lambda store: store.close(),
}
TABLE = [
    (kind, name, call, interrupting)
    for kind, calls in (("messages", CALLS_OF_MESSAGES), ("memory", CALLS_OF_A_MEMORY))
    for name in ("memory", "json", "sqlite")
    if (kind, name) != ("memory", "json")
    for call in calls
    if call != "close"
    for interrupting in ("read", "write", "erase", "close")
]
# A handler's call of a driver that waited for a lock of the interrupted one would wait for ever.
SERVERS = [
    (kind, name, call, interrupting)
    for kind, name in (
        ("messages", "postgres"),
        ("messages", "mongodb"),
        ("memory", "postgres"),
        ("memory", "redis"),
    )
    for call in ("read", "write")
    for interrupting in ("read", "write")
]


def open_with_records(kind: str, config: Any) -> MessageStore | WorkingMemoryStore:
    if kind == "memory":
        memories = WorkingMemoryStore.initialize(config)
        memories.get_or_create("c1", "u1", "a1")
        return memories
    messages = MessageStore.initialize(config)
    messages.store_conversation(conversation("c1"))
    messages.store_messages([message(f"m{n}") for n in range(5)])
    return messages


@pytest.mark.parametrize(("kind", "name", "call", "interrupting"), [*TABLE, *SERVERS])
def test_a_call_that_interrupts_another_one_ends(
    kind: str, name: str, call: str, interrupting: str, tmp_path: Path
) -> None:
    calls: dict[str, Callable[[Any], object]]
    calls = CALLS_OF_MESSAGES if kind == "messages" else CALLS_OF_A_MEMORY
    refused: list[RuntimeError] = []
    done = at = 0

    def interrupt(store: Any) -> None:
        nonlocal done
        try:
            calls[interrupting](store)
            done += 1
        except RuntimeError as error:  # it would wait for the call that it has interrupted
            refused.append(error)

    step = STEP * (5 if (kind, name, call, interrupting) in SERVERS else 1)
    with config_of(name, tmp_path) as config:
        if (name, interrupting) == ("sqlite", "erase") and call in ("read", "window"):
            # For so long, an erasure waits for a read which ends only after it.
            config = {**config, "timeout": 1.0}
        store = open_with_records(kind, config)
        is_reached = True
        while is_reached:
            at += step
            try:
                is_reached = run_and_interrupt(
                    partial(calls[call], store), partial(interrupt, store), at
                )
            except (StoreClosedError, NotFoundError):  # what was in the memory is gone
                assert interrupting == "close"
            if interrupting == "close":
                store.close()
                store = open_with_records(kind, config)
            else:
                calls["write"](store)
        store.close()

    assert done, refused
    reason = "the function of update" if call == "update" else "wait for itself"
    assert all(reason in str(error) or "wait for itself" in str(error) for error in refused)
    report(f"interrupts, {kind}, {name}, {interrupting} in {call}: {done}, {len(refused)} refused")
