"""Changes of threads that arrive during a commit are committed together, each once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest

from jazzmine._sync.batcher import Batcher
from jazzmine.change import Change
from tests.backends.committer import Committer, Ledger, adding, in_order, refuse


class InterruptError(BaseException):
    """Raised by a signal handler in the main thread."""


def wait_until_waiting(batcher: Batcher[Ledger], count: int) -> None:
    deadline = time.monotonic() + 10
    while len(batcher._waiting) < count and time.monotonic() < deadline:
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
    batcher = Batcher(commit)

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
    batcher = Batcher(commit)

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
    batcher = Batcher(commit)

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
    batcher = Batcher(commit)

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


def test_an_interrupt_of_the_thread_that_commits_loses_no_other_change() -> None:
    commit = Committer()
    batcher = Batcher(commit)

    with ThreadPoolExecutor(8) as threads:
        first = start_held(threads, batcher, commit)
        others = [threads.submit(batcher.run, adding(number)) for number in range(7)]
        wait_until_waiting(batcher, 7)
        commit.failure = InterruptError()
        commit.go_on.set()
        outcomes = [other.result() for other in others]

    assert isinstance(first.exception(), InterruptError)
    assert outcomes == list(range(7))
    assert sorted(commit.ledger) == list(range(7))


def test_an_interrupted_commit_of_several_is_made_again_without_the_interrupted_thread() -> None:
    commit = Committer()
    batcher = Batcher(commit)
    interrupted: list[bool] = []

    def interrupt_once(ledger: Ledger) -> None:
        interrupted.append(True)
        if len(interrupted) == 1:
            raise InterruptError

    with ThreadPoolExecutor(9) as threads:
        start_held(threads, batcher, commit)
        others = [threads.submit(batcher.run, interrupt_once) for _ in range(8)]
        wait_until_waiting(batcher, 8)
        commit.go_on.set()
        errors = [other.exception() for other in others]

    assert [type(error) for error in errors if error is not None] == [InterruptError]
    assert commit.batches == [1, 8, 7]
    assert len(interrupted) == 8


def test_a_change_that_an_interrupted_commit_refused_is_tried_again() -> None:
    commit = Committer()
    batcher = Batcher(commit)
    interrupted = threading.Event()

    def refuse_at_first(ledger: Ledger) -> None:
        if not interrupted.is_set():
            raise ValueError("refused")

    def interrupt_once(ledger: Ledger) -> None:
        if not interrupted.is_set():
            interrupted.set()
            raise InterruptError

    with ThreadPoolExecutor(5) as threads:
        start_held(threads, batcher, commit)
        calls = [threads.submit(batcher.run, refuse_at_first) for _ in range(3)]
        wait_until_waiting(batcher, 3)
        calls.append(threads.submit(batcher.run, interrupt_once))
        wait_until_waiting(batcher, 4)
        commit.go_on.set()
        errors = [call.exception() for call in calls]

    assert [type(error) for error in errors if error is not None] == [InterruptError]


def test_a_thread_interrupted_while_it_waits_withdraws_its_change() -> None:
    commit = Committer()
    batcher = Batcher(commit)

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


def test_interrupts_at_any_moment_leave_the_other_threads_at_work() -> None:
    batcher = Batcher(commit_all)
    is_over = False
    is_armed = False
    counts: list[int] = []

    def write() -> None:
        count = 0
        while not is_over:
            batcher.run(adding("other"))
            count += 1
        counts.append(count)

    def interrupt(number: int, frame: FrameType | None) -> None:
        if is_armed:
            raise InterruptError

    threads = [threading.Thread(target=write, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for number in range(500):
            signal.setitimer(signal.ITIMER_REAL, 0.00002 * (1 + number % 40))
            try:
                is_armed = True
                batcher.run(adding("own"))
                is_armed = False
            except InterruptError:
                is_armed = False
    finally:
        is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    is_over = True
    for thread in threads:
        thread.join(10)

    assert len(counts) == 3


def commit_all(changes: Sequence[Change[Ledger]]) -> None:
    for change in changes:
        if change.claim():
            change.result = change.apply([])


def test_closing_waits_for_the_commit_of_another_thread() -> None:
    commit = Committer()
    batcher = Batcher(commit)

    with ThreadPoolExecutor(2) as threads:
        first = start_held(threads, batcher, commit)
        closing = threads.submit(batcher.close)
        time.sleep(0.02)
        was_closed = closing.done()
        commit.go_on.set()
        closing.result()

    assert not was_closed
    assert first.result() == "first"
