"""`benchmarks/rivals` with this library alone: its processes, its figures and its tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.rivals import integrity, tables
from benchmarks.rivals.places import SQLite
from benchmarks.rivals.processes import Process, opened, processes
from benchmarks.rivals.rivals import RIVALS
from benchmarks.rivals.store import said, turn

OURS = RIVALS[0]


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Process]]:
    with processes(OURS, 2, python=Path(sys.executable)) as made:
        yield made


def test_a_turn_is_read_as_it_was_added(workers: list[Process], tmp_path: Path) -> None:
    session = {"session": "s1", "user": "ada"}
    with opened(workers[:1], SQLite(tmp_path).address):
        workers[0].call("create", **session, title="Tea")
        workers[0].call("add", **session, messages=turn("t1"))
        assert workers[0].call("newest", **session, count=3) == turn("t1")[1:]
        assert workers[0].call("time_page", user="ada", count=10, times=1)


def test_processes_that_write_at_once_lose_nothing(workers: list[Process], tmp_path: Path) -> None:
    found = integrity.at_once(workers, SQLite(tmp_path), each=10)
    assert found.pop("seconds") > 0
    assert set(found.values()) == {0}


def test_an_erased_name_is_in_no_row_and_not_in_the_file(
    workers: list[Process], tmp_path: Path
) -> None:
    found = integrity.erased(workers[0], SQLite(tmp_path))
    assert found.pop("before") > 100
    assert set(found.values()) == {0}


def test_a_session_goes_on_after_its_process_was_killed(
    workers: list[Process], tmp_path: Path
) -> None:
    with processes(OURS, 1, python=Path(sys.executable)) as victims:
        found = integrity.killed(workers[0], victims, SQLite(tmp_path), sessions=3)
    assert found == {"kills": 3, "cannot go on": 0, "kept in part": 0}


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
    found = {"at once": {"error": "refused"}, "killed": killed}
    row = next(tables.tables({"a store": found})).splitlines()[-1]
    assert row.startswith("| a store | failed |")
    assert "| 1 of 9 |" in row
