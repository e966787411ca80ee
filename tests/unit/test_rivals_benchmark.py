"""`benchmarks/rivals` on this library, and on stores that are broken on purpose."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import jazzmine
from benchmarks.frame.workers import Worker
from benchmarks.rivals import integrity, tables
from benchmarks.rivals.__main__ import Run, command_line
from benchmarks.rivals.environments import ENVIRONMENTS, Environment, versions
from benchmarks.rivals.places import SQLite
from benchmarks.rivals.processes import opened, processes
from benchmarks.rivals.rivals import RIVALS, Rival
from benchmarks.rivals.store import Store, said, turn
from tests.unit import rival_stores

OURS = RIVALS[0]
PYTHON = Path(sys.executable)


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Worker]]:
    with processes(OURS, 2, python=PYTHON) as made:
        yield made


def test_a_turn_is_read_as_it_was_added(workers: list[Worker], tmp_path: Path) -> None:
    session = {"session": "s1", "user": "ada"}
    with opened(workers[:1], SQLite(tmp_path).address):
        workers[0].call("create", **session, title="Tea")
        workers[0].call("add", **session, messages=turn("t1"))
        assert workers[0].call("newest", **session, count=3) == turn("t1")[1:]
        assert workers[0].call("time_page", user="ada", count=10, times=1)


# Each scenario on a store that keeps everything, and on stores that are broken on purpose


def figures(adapter: type[Store], scenario: str, place: Any, port: int = 0) -> integrity.Figures:
    """Return what a scenario finds about a store, without the figures that are its size."""
    count = 1 if scenario in ("dropped", "erased") else 2
    rival = Rival("a store", adapter, OURS.environment, "SQLite")
    is_timed = scenario in ("ahead", "stopped")
    with processes(rival, count, own_clock=is_timed, python=PYTHON) as made:
        if scenario == "at once":
            result = integrity.at_once(made, place, each=10)
        elif scenario == "killed":
            result = integrity.killed(made[0], made[1], place, kills=2)
        elif scenario == "dropped":
            result = integrity.reply_dropped(made[0], place, port, rounds=1)
        elif scenario == "ahead":
            result = integrity.clock_ahead(made, place, messages=6)
        elif scenario == "stopped":
            result = integrity.clock_stopped(made, place, messages=6)
        else:
            result = integrity.erased(made[0], place)
    sizes = ("seconds", "messages", "kills", "dropped", "before")
    assert all(value > 0 for name, value in result.items() if name in sizes)
    return {name: value for name, value in result.items() if name not in sizes}


@pytest.mark.parametrize("adapter", [OURS.adapter, rival_stores.Kept])
@pytest.mark.parametrize("scenario", ["at once", "killed", "ahead", "stopped", "erased"])
def test_nothing_is_found_about_a_store_that_keeps_everything(
    adapter: type[Store], scenario: str, tmp_path: Path
) -> None:
    assert set(figures(adapter, scenario, SQLite(tmp_path)).values()) == {0}


@pytest.mark.parametrize(
    ("adapter", "scenario", "figure"),
    [
        (rival_stores.Refusing, "at once", "refused"),
        (rival_stores.Losing, "at once", "lost"),
        (rival_stores.Doubling, "at once", "doubled"),
        (rival_stores.Tearing, "at once", "torn"),
        (rival_stores.Disordered, "at once", "out of order"),
        (rival_stores.Halved, "killed", "cannot go on"),
        (rival_stores.Halved, "killed", "kept in part"),
        (rival_stores.OrderedByClock, "ahead", "out of order"),
        (rival_stores.LatestAlone, "ahead", "lost"),
        (rival_stores.OrderedByClock, "stopped", "out of order"),
        (rival_stores.LatestAlone, "stopped", "lost"),
        (rival_stores.KeepingTitles, "erased", "left"),
        (rival_stores.LeavingBytes, "erased", "in the files"),
        (rival_stores.ErasingAll, "erased", "others lost"),
    ],
)
def test_a_store_that_is_broken_on_purpose_is_noticed(
    adapter: type[Store], scenario: str, figure: str, tmp_path: Path
) -> None:
    assert figures(adapter, scenario, SQLite(tmp_path))[figure] > 0


class Port:
    """The place of a store behind a network."""

    address = ""

    def through(self, port: int) -> str:
        return str(port)


@pytest.mark.parametrize(
    ("adapter", "figure"),
    [
        (rival_stores.Sent, None),
        (rival_stores.SentTwice, "doubled"),
        (rival_stores.SentAndForgotten, "missing"),
        (rival_stores.SentOnce, "given up"),
    ],
)
def test_a_store_that_a_dropped_reply_breaks_is_noticed(
    adapter: type[Store], figure: str | None
) -> None:
    with rival_stores.served() as server:
        result = figures(adapter, "dropped", Port(), server.port)
    assert {name for name, value in result.items() if value} >= ({figure} if figure else set())
    if figure is None:
        assert set(result.values()) == {0}


# A run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A short run, whose stores are of this environment."""
    monkeypatch.setattr("benchmarks.rivals.processes.python_of", lambda folder: PYTHON)
    monkeypatch.setattr("sys.argv", ["run", "--short", "--long", "80", "--kills", "1"])
    options = command_line()
    return Run(options, str(tmp_path), str(tmp_path), "postgresql://ada@127.0.0.1:1/desk")


BROKEN = Rival("broken", rival_stores.NeverOpen, OURS.environment, "SQLite")
KEPT = Rival("kept", rival_stores.Kept, OURS.environment, "SQLite")


def test_a_store_that_fails_ends_neither_the_run_nor_the_race(run: Run) -> None:
    run.measure(BROKEN)
    run.race([BROKEN, KEPT])

    broken, kept = run.stores[BROKEN.label], run.stores[KEPT.label]
    assert all("never opens" in result["error"] for result in broken.values())
    assert set(broken) == {"at once", "stopped", "erased", "killed", "long", "lists", "calls"}
    assert kept["calls"]["add one, p50"] > 0
    assert run.has_failures()


def test_the_versions_of_a_library_and_its_drivers_are_stated(tmp_path: Path) -> None:
    environment = Environment("jazzmine", "jazzmine", ("--editable", "psycopg[binary]==3.3.9"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Environment, "packages", Path(psycopg.__file__).parents[1])
        stated = versions(environment)
    assert stated == {"jazzmine": jazzmine.__version__, "psycopg": psycopg.__version__}


def test_every_requirement_of_an_environment_is_pinned() -> None:
    for environment in ENVIRONMENTS:
        texts = [text for text in environment.requirements if not text.startswith(("-", "/"))]
        assert all("==" in text for text in texts)


# Figures and tables


def test_a_call_without_a_result_is_found() -> None:
    assert integrity.can_go_on(turn("t1"))
    assert not integrity.can_go_on(turn("t1")[:2])
    assert not integrity.can_go_on([*turn("t1")[:2], said("t2")])
    assert not integrity.can_go_on(turn("t1")[2:])


def test_messages_after_a_later_one_are_out_of_order() -> None:
    assert integrity._inversions(["0", "1", "2"]) == 0
    assert integrity._inversions(["1", "3", "0", "2"]) == 2


def test_the_tables_show_what_failed_and_what_does_not_apply() -> None:
    killed = {"cannot go on": 1, "kills": 9}
    stores = {"a store": {"at once": {"error": "refused"}, "killed": killed}}
    libraries = {"a library": {"versions": {"a-library": "1.0"}, "weight": {"error": "no disk"}}}
    sizes = dict.fromkeys(
        ("processes", "each", "kills", "alternating", "times", "long", "turns", "sessions"), 7_777
    )
    text = "\n".join(tables.report("a machine", sizes, stores, libraries))
    assert "| a store | failed |" in text
    assert "| 1 of 9 |" in text
    assert "| a library | a-library 1.0 | failed | failed | failed |" in text
    assert "session of 7,777" in text
    assert "Run on: a machine." in text
