"""A commit function for a batcher, and changes to commit."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from jazzmine.change import Change

__all__ = ["Committer", "Ledger", "adding", "in_order", "refuse"]

Ledger = list[Any]


class Committer:
    """Applies changes to a list; a test can delay a commit, and make it fail."""

    def __init__(self) -> None:
        self.ledger: Ledger = []
        self.batches: list[int] = []
        self.failure: BaseException | None = None
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self, changes: Sequence[Change[Ledger]]) -> None:
        self.batches.append(len(changes))
        claimed = [change for change in changes if change.claim()]
        self.begun.set()
        self.go_on.wait(10)
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        for change in claimed:
            try:
                change.result = change.apply(self.ledger)
            except ValueError as error:
                change.error = error

    def hold(self) -> None:
        self.begun.clear()
        self.go_on.clear()


def add(item: Any, ledger: Ledger) -> Any:
    ledger.append(item)
    return item


def refuse(ledger: Ledger) -> None:
    raise ValueError("refused")


def adding(item: Any) -> partial[Any]:
    return partial(add, item)


def in_order(ledger: Ledger, caller: int) -> list[int]:
    return [number for each, number in ledger if each == caller]
