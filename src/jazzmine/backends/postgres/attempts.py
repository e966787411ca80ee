"""The statements of calls, and the attempts at a write whose replies may be lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from jazzmine.backends.postgres.errors import UnknownOutcome
from jazzmine.backends.postgres.schema import Query

__all__ = ["Attempt", "Parameters", "Read", "Write", "require_answer"]

Parameters: TypeAlias = Mapping[str, object]


class Read(NamedTuple):
    """A query of a call.

    Args:
        query: the statement.
        parameters: by name.
        prepare: as psycopg takes it.
    """

    query: Query
    parameters: Parameters
    prepare: bool | None


class Attempt(NamedTuple):
    """An attempt at a write that may have taken effect.

    Args:
        leases: the ids that its lease may have.
        calls: how many writes its lease counts if it took effect.
    """

    leases: set[int]
    calls: int


class Write(NamedTuple):
    """A write of a call.

    Args:
        query: the statement.
        parameters: by name.
        is_repeatable: whether a repetition of an attempt that took effect has the same answer.
        attempts: those that may have taken effect; more are added.
    """

    query: Query
    parameters: Parameters
    is_repeatable: bool
    attempts: list[Attempt]

    def answer(self, retired: Iterable[tuple[int, int, str | None]]) -> str | None:
        """Return the answer of an attempt that took effect, or None: the write is sent again.

        Args:
            retired: leases, each its id, its count of writes and its last answer.

        Raises:
            UnknownOutcome: a lease is missing, and the write must not be repeated in vain.
        """
        missing = set[int]().union(*(attempt.leases for attempt in self.attempts))
        for lease, calls, answer in retired:
            missing.discard(lease)
            if any(lease in leases and calls == counted for leases, counted in self.attempts):
                return require_answer(answer)
        if not self.is_repeatable and any(leases <= missing for leases, _ in self.attempts):
            raise UnknownOutcome("the server has restarted, and the reply was lost")
        return None


def require_answer(answer: str | None) -> str:
    """Return the answer of a write out of its lease.

    Raises:
        UnknownOutcome: it was erased, because it had the id or text of a user who was erased.
    """
    if answer is None:
        raise UnknownOutcome("the reply was lost, and a user's erasure has deleted the answer")
    return answer
