"""A signal handler raises in the main thread at any moment; the other threads go on."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

import pytest

from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.behaviour.samples import conversation, message
from tests.faults.networks import config_of
from tests.faults.sizes import report, size

INTERRUPTS = size(50, 5000)


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


def update(store: WorkingMemoryStore) -> None:
    store.end_turn("c1", "own", "greet")


def change_in_block(store: WorkingMemoryStore) -> None:
    with store.locked("c1") as memory:
        memory.end_turn("own", "greet")


# hiredis crashes the process if a signal handler raises while it packs a command. A lock in a
# database whose block was interrupted may be held until it expires.
@pytest.mark.parametrize(
    ("name", "call"),
    [("memory", update), ("memory", change_in_block), ("sqlite", update), ("postgres", update)],
)
def test_an_interrupted_call_of_a_working_memory_blocks_no_other_and_loses_nothing(
    name: str, call: Callable[[WorkingMemoryStore], None], tmp_path: Path
) -> None:
    with config_of(name, tmp_path) as config, WorkingMemoryStore.initialize(config) as store:
        store.get_or_create("c1", "u1", "a1")
        others = Others(lambda: store.end_turn("c1", "other", "greet"))

        interrupt_often(lambda: call(store))
        others.end()

        assert store.end_turn("c1", "after", "greet").last_agent_response == "after"
    report(f"interrupts, {name}: {INTERRUPTS}, none blocks another update")
