"""What the calls of a store cost, and what it stores; times are medians, in s."""

from __future__ import annotations

import statistics
from collections.abc import Generator

from benchmarks.rivals.places import Place
from benchmarks.rivals.workers import Worker, opened

Figures = dict[str, float]
NEWEST = 20


def calls(worker: Worker, times: int, batch: int = 20) -> Generator[None, None, Figures]:
    """Adding one message and a turn of four to a session of 200.

    The store is open. It yields after each batch of calls, so that the stores may take turns, and
    changes of the machine's speed affect all of them.
    """
    session = {"session": "costs", "user": "ada"}
    worker.call("create", **session, title="")
    worker.call("fill", **session, first=0, count=200)
    singles: list[float] = []
    turns: list[float] = []
    for number in range(-(-times // batch) + 1):
        yield
        how = {**session, "count": batch, "prefix": str(number)}
        single, turn = worker.call("time_adds", **how), worker.call("time_turns", **how)
        if number:  # the first is a warm-up
            singles += single
            turns += turn
    return {"add one": statistics.median(singles), "add a turn": statistics.median(turns)}


def long_session(
    worker: Worker, place: Place, turns: int, messages: int, times: int, more: int = 200
) -> Figures:
    """By how much the data grow with a turn after many turns, and reading after many more."""
    session = {"session": "long", "user": "ada"}
    with opened([worker], place.address):
        worker.call("create", **session, title="")
        worker.call("fill", **session, first=0, count=4 * turns)
    before = place.size()
    with opened([worker], place.address):
        worker.call("time_turns", **session, count=more, prefix="more")
    grown = place.size() - before
    with opened([worker], place.address):
        worker.call("fill", **session, first=4 * turns, count=messages - 4 * turns)
        read = worker.call("time_newest", **session, count=NEWEST, times=times)
    return {"bytes": grown / more, "newest": statistics.median(read)}
