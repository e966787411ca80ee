"""The checker distinguishes possible histories from impossible ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.linearizability import UNKNOWN, Operation, Outcome, bounded, is_linearizable


def register(state: Any, operation: Operation) -> Outcome:
    if operation.name == "write":
        return Outcome(None, operation.argument)
    return Outcome(state, state)


def write(value: int, began: float, ended: float, result: Any = None) -> Operation:
    return Operation("write", value, began, ended, result)


def read(value: int, began: float, ended: float) -> Operation:
    return Operation("read", None, began, ended, value)


UNBOUNDED = "only if what was given up may take effect at any later time"
CASES: list[tuple[list[Operation], bool | str]] = [
    ([], True),
    ([write(1, 0, 1), read(1, 2, 3)], True),
    ([write(1, 0, 5), read(0, 1, 2), read(1, 3, 4)], True),
    ([write(1, 0, 9), write(2, 0, 9), read(2, 10, 11)], True),
    ([write(1, 0, 1, UNKNOWN), read(0, 2, 3)], True),
    ([write(1, 0, 1, UNKNOWN), read(1, 2, 3)], True),
    ([write(1, 0, 1, UNKNOWN), read(0, 2, 3), read(0, 4, 5)], True),
    ([write(1, 0, 1, UNKNOWN), read(0, 2, 3), read(1, 4, 5)], True),
    ([write(1, 0, 1, UNKNOWN), read(0, 0, 3), read(1, 4, 5)], True),
    ([write(1, 0, 2, UNKNOWN), write(2, 1, 3), read(2, 1, 5), read(1, 4, 6)], True),
    ([write(1, 0, 1, UNKNOWN), write(2, 2, 9), read(1, 3, 4), read(2, 5, 6)], True),
    ([write(1, 0, 1, UNKNOWN), write(2, 2, 3), read(1, 4, 5)], True),
    ([write(1, 0, 1, UNKNOWN), read(0, 2, 3), read(0, 4, 5), read(1, 6, 7)], UNBOUNDED),
    ([write(1, 0, 1, UNKNOWN), write(2, 2, 3), read(2, 4, 5), read(1, 6, 7)], UNBOUNDED),
    ([write(1, 0, 1), read(0, 2, 3)], False),
    ([write(1, 0, 5), read(1, 1, 2), read(0, 3, 4)], False),
    ([write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)], False),
    ([write(1, 0, 1, UNKNOWN), read(1, 2, 3), read(0, 4, 5)], False),
    ([read(7, 0, 1)], False),
]


@pytest.mark.every_combination
@pytest.mark.parametrize("reads", [[], ["read"]], ids=["", "reads at once"])
@pytest.mark.parametrize(("history", "possible"), CASES)
def test_possible_histories_are_told_from_impossible_ones(
    history: list[Operation], possible: bool | str, reads: list[str]
) -> None:
    assert is_linearizable(history, 0, register, reads=reads) is bool(possible)
    assert is_linearizable(bounded(history), 0, register, reads=reads) is (possible is True)
