"""Changes of threads that arrive during a commit are committed together, each once."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import pytest

from jazzmine._sync.batcher import Batcher
from jazzmine.change import Change
from jazzmine.errors import StoreClosedError
from tests.backends.committer import Committer, Ledger, adding, in_order, refuse


class InterruptError(BaseException):
    """Raised by a signal handler in the main thread."""


def wait_until_waiting(batcher: Batcher[Ledger], count: int) -> None:
    deadline = time.monotonic() + 10
    while batcher._calls.qsize() < count and time.monotonic() < deadline:
        time.sleep(0.001)


def start_held(
    threads: ThreadPoolExecutor, batcher: Batcher[Ledger], commit: Committer
) -> Future[Any]:
    """Start a commit of the item "first", which pauses until it is released."""
    commit.hold()
    first = threads.submit(batcher.run, adding("first"))
    commit.begun.wait(10)
    return first


def test_threads_have_each_change_committed_once_and_in_order() -> None:
    commit = Committer()
    batcher: Batcher[Ledger] = Batcher(commit)

    def work(caller: int) -> list[Any]:
        return [batcher.run(adding((caller, number))) for number in range(100)]

    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(work, range(16)))

    assert results == [[(caller, number) for number in range(100)] for caller in range(16)]
    assert len(commit.ledger) == sum(commit.batches) == 1600
    for caller in range(16):
        assert in_order(commit.ledger, caller) == list(range(100))


def test_changes_of_threads_that_arrive_during_a_commit_share_the_next() -> None:
    commit = Committer()
    batcher: Batcher[Ledger] = Batcher(commit)

    with ThreadPoolExecutor(9) as threads:
        start_held(threads, batcher, commit)
        for number in range(8):
            threads.submit(batcher.run, adding(number))
            wait_until_waiting(batcher, number + 1)
        commit.go_on.set()

    assert commit.batches == [1, 8]
    assert commit.ledger == ["first", *range(8)]


def test_a_refused_change_of_a_thread_leaves_the_others_of_its_commit_alone() -> None:
    commit = Committer()
    batcher: Batcher[Ledger] = Batcher(commit)

    with ThreadPoolExecutor(4) as threads:
        start_held(threads, batcher, commit)
        before = threads.submit(batcher.run, adding("before"))
        wait_until_waiting(batcher, 1)
        refused = threads.submit(batcher.run, refuse)
        wait_until_waiting(batcher, 2)
        after = threads.submit(batcher.run, adding("after"))
        wait_until_waiting(batcher, 3)
        commit.go_on.set()

        assert (before.result(), after.result()) == ("before", "after")
        with pytest.raises(ValueError, match="refused"):
            refused.result()
    assert commit.batches == [1, 3]


def test_a_failed_commit_is_the_error_of_every_thread_in_it_and_of_no_other() -> None:
    commit = Committer()
    batcher: Batcher[Ledger] = Batcher(commit)

    with ThreadPoolExecutor(5) as threads:
        first = start_held(threads, batcher, commit)
        calls = [threads.submit(batcher.run, adding(number)) for number in range(4)]
        wait_until_waiting(batcher, 4)
        commit.begun.clear()
        commit.go_on.set()
        first.result()
        commit.hold()
        commit.failure = OSError("disk full")
        late = [threads.submit(batcher.run, adding("late"))]
        commit.go_on.set()
        errors = [call.exception() for call in calls + late]

    assert first.exception() is None
    assert {str(error) for error in errors if error} == {"disk full"}
    assert batcher.run(adding("afterwards")) == "afterwards"


def test_a_thread_interrupted_while_it_waits_withdraws_its_change() -> None:
    commit = Committer()
    batcher: Batcher[Ledger] = Batcher(commit)

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise InterruptError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with ThreadPoolExecutor(1) as threads:
            first = start_held(threads, batcher, commit)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(InterruptError):
                batcher.run(adding("withdrawn"))
            commit.go_on.set()
            first.result()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    batcher.run(adding("second"))

    assert commit.ledger == ["first", "second"]


@contextmanager
def handling(handler: Callable[[], object]) -> Iterator[None]:
    """Call a function in the main thread when the timer ends."""

    def handle(number: int, frame: FrameType | None) -> None:
        handler()

    before = signal.signal(signal.SIGALRM, handle)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def raise_interrupt() -> None:
    raise InterruptError


@pytest.mark.parametrize("in_a_row", [1, 2])
def test_interrupts_at_any_moment_apply_no_change_of_another_thread_twice(in_a_row: int) -> None:
    ledger: Ledger = []
    batcher: Batcher[Ledger] = Batcher(partial(commit_to, ledger))
    is_armed = False
    left = 0
    done: list[list[Any]] = []

    def write(caller: int) -> None:
        done.append([batcher.run(adding((caller, number))) for number in range(1000)])

    def interrupt() -> None:
        nonlocal left
        if is_armed:
            left -= 1
            if left:
                signal.setitimer(signal.ITIMER_REAL, 0.000005)
            raise InterruptError

    gc.collect()  # an interrupt in the finalizer of an earlier test's batcher would be reported
    threads = [threading.Thread(target=write, args=[n], daemon=True) for n in range(3)]
    for thread in threads:
        thread.start()
    with handling(interrupt):
        for number in range(500):
            try:
                is_armed, left = True, in_a_row
                signal.setitimer(signal.ITIMER_REAL, 0.00002 * (1 + number % 40))
                batcher.run(adding(("own", number)))
                is_armed = False
            except InterruptError:
                is_armed = False
    for thread in threads:
        thread.join(30)

    assert sorted(done) == [[(caller, number) for number in range(1000)] for caller in range(3)]
    assert len(ledger) == len(set(ledger))
    for caller in range(3):
        assert in_order([item for item in ledger if item[0] != "own"], caller) == list(range(1000))


def test_a_signal_handler_that_commits_and_closes_waits_for_no_thread_that_waits_for_it() -> None:
    commit = Committer()
    batcher: Batcher[Ledger] = Batcher(commit)

    def commit_and_close() -> None:
        commit.go_on.set()
        batcher.run(adding("of the handler"))
        batcher.close()
        raise InterruptError

    commit.hold()
    with handling(commit_and_close):
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(InterruptError):
            batcher.run(adding("first"))

    assert commit.ledger == ["first", "of the handler"]
    with pytest.raises(StoreClosedError):
        batcher.run(adding("late"))


def test_a_read_waits_for_the_change_of_an_interrupted_call() -> None:
    commit = Committer()
    batcher: Batcher[Ledger] = Batcher(commit)
    commit.hold()
    with handling(raise_interrupt):
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(InterruptError):
            batcher.run(adding("first"))
    was_unsettled = bool(batcher.interrupted)

    commit.go_on.set()
    batcher.settle()

    assert was_unsettled
    assert not batcher.interrupted
    assert commit.ledger == ["first"]


def test_a_change_that_a_commit_leaves_is_tried_again() -> None:
    attempts: list[int] = []

    def commit_at_last(changes: Sequence[Change[Ledger]]) -> None:
        attempts.append(len(changes))
        if len(attempts) == 3:
            commit_to([], changes)

    assert Batcher(commit_at_last).run(adding("first")) == "first"
    assert attempts == [1, 1, 1]


def commit_to(ledger: Ledger, changes: Sequence[Change[Ledger]]) -> None:
    for change in changes:
        if change.claim():
            change.result = change.apply(ledger)


def test_closing_waits_for_the_commit_of_another_thread() -> None:
    commit = Committer()
    batcher: Batcher[Ledger] = Batcher(commit)

    with ThreadPoolExecutor(2) as threads:
        first = start_held(threads, batcher, commit)
        closing = threads.submit(batcher.close)
        time.sleep(0.02)
        was_closed = closing.done()
        commit.go_on.set()
        closing.result()

    assert not was_closed
    assert first.result() == "first"


def test_closing_without_a_change_starts_no_thread() -> None:
    batcher: Batcher[Ledger] = Batcher(Committer())
    before = threading.enumerate()

    batcher.close()

    assert set(threading.enumerate()) <= set(before)
    with pytest.raises(StoreClosedError):
        batcher.run(adding("late"))
