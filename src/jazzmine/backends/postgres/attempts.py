"""The attempts at a write whose replies may be lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from jazzmine.backends.postgres.errors import UnknownOutcome
from jazzmine.backends.postgres.schema import Query

__all__ = ["Attempts", "Parameters", "Read", "Write", "require_answer"]

Parameters: TypeAlias = Mapping[str, object]


class Attempts:
    """The attempts at one write.

    Args:
        is_repeatable: whether a repetition of an attempt that took effect has the same answer.

    Attributes:
        doubtful: leases, and how many writes each counts if an attempt took effect.
    """

    def __init__(self, is_repeatable: bool) -> None:
        self.doubtful: dict[int, int] = {}
        self._is_repeatable = is_repeatable
        self._attempts: list[set[int]] = []

    def doubt(self, leases: set[int], calls: int) -> None:
        """Note an attempt that may have taken effect, with the ids that its lease may have."""
        self.doubtful.update(dict.fromkeys(leases, calls))
        self._attempts.append(leases)

    def answer(self, leases: Iterable[tuple[int, int, str | None]]) -> str | None:
        """Return the answer of an attempt that took effect, or None: the write is sent again.

        Args:
            leases: the id of each, its count of writes and the last answer, since it is retired.

        Raises:
            UnknownOutcome: a lease is missing, and the write must not be repeated in vain.
        """
        missing = set(self.doubtful)
        for lease, calls, answer in leases:
            missing.discard(lease)
            if self.doubtful.get(lease) == calls:
                return require_answer(answer)
        if not self._is_repeatable and any(map(missing.issuperset, self._attempts)):
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


class Write(NamedTuple):
    """A write of a call.

    Args:
        query: the statement.
        parameters: by name.
        attempts: those so far.
    """

    query: Query
    parameters: Parameters
    attempts: Attempts
