"""What the calls of a store cost, what it stores, and what its library weighs."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Generator
from importlib.metadata import distributions
from pathlib import Path

from benchmarks.frame.environments import ROOT, python_of
from benchmarks.rivals.environments import JAZZMINE, Environment
from benchmarks.rivals.places import Place
from benchmarks.rivals.processes import opened
from benchmarks.rivals.workers import Worker

Figures = dict[str, float]
NEWEST = 20
PAGE = 100


def calls(worker: Worker, times: int, batch: int = 20) -> Generator[None, None, Figures]:
    """Adding one message and a turn of four to a session of 200, and reading it.

    The store is open. It yields after each batch of calls, so that the stores may take turns, and
    changes of the machine's speed affect all of them.
    """
    session = {"session": "costs", "user": "ada"}
    worker.call("create", **session, title="")
    worker.call("fill", **session, first=0, count=200)
    yield
    # A session is read while it has 200 messages.
    reads = worker.call("time_newest", **session, count=NEWEST, times=times)
    singles: list[float] = []
    turns: list[float] = []
    for number in range(-(-times // batch) + 1):
        yield
        how = {**session, "count": batch, "prefix": str(number)}
        single, turn = worker.call("time_adds", **how), worker.call("time_turns", **how)
        if number:  # the first is a warm-up
            singles += single
            turns += turn
    return {
        **_percentiles("add one", singles),
        **_percentiles("add a turn", turns),
        **_percentiles(f"newest {NEWEST} of 200", reads),
    }


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
    return {"bytes": grown / more, **_percentiles(f"newest {NEWEST} of {messages:,}", read)}


def lists(worker: Worker, place: Place, sessions: int, times: int) -> Figures:
    """Listing a page of many sessions of one user."""
    with opened([worker], place.address):
        if worker.call("time_page", user="ada", count=PAGE, times=1) is None:
            return {}
        worker.call("create_many", count=sessions, user="ada")
        listed = worker.call("time_page", user="ada", count=PAGE, times=times)
    return _percentiles(f"a page of {sessions:,} sessions", listed)


def weight(environment: Environment, statement: str, times: int) -> Figures:
    """The time to import a library, and what its environment holds beside pip."""
    python = str(python_of(environment.folder))
    imports, starts = (
        _seconds([python, "-c", statement], times),
        _seconds([python, "-c", "pass"], times),
    )
    installed = [
        package
        for package in distributions(path=[str(environment.packages)])
        if package.metadata["Name"].lower() not in ("pip", "setuptools")
    ]
    files = (Path(str(file.locate())) for package in installed for file in package.files or ())
    size = sum(path.stat().st_size for path in files if path.is_file())
    if environment is JAZZMINE:  # it is installed in place
        size += sum(path.stat().st_size for path in (ROOT / "src").rglob("*.py*") if path.is_file())
    return {
        "import": imports - starts,
        "dependencies": len(installed) - 1,
        "size": size,
    }


def _seconds(command: list[str], times: int) -> float:
    """The median time that a program takes."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        subprocess.run(command, check=True, cwd="/", capture_output=True)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _percentiles(name: str, times: list[float]) -> Figures:
    ordered = sorted(times)
    return {
        f"{name}, p50": statistics.median(ordered),
        f"{name}, p99": ordered[-(-len(ordered) * 99 // 100) - 1],
    }
