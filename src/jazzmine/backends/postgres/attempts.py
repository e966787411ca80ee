"""A statement of a call, and the attempts at a write whose replies may be lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from jazzmine.backends.postgres.errors import UnknownOutcome

__all__ = ["Attempts", "Parameters", "Statement"]

Parameters: TypeAlias = Mapping[str, object]


class Attempts:
    """The attempts at one write.

    Args:
        is_recorded: whether its lease has no number if it changed nothing.
        is_repeatable: whether a repetition of an attempt that took effect has the same result.

    Attributes:
        doubtful: leases, and how many writes each counts if an attempt took effect.
    """

    def __init__(self, *, is_recorded: bool = False, is_repeatable: bool = True) -> None:
        self.doubtful: dict[int, int] = {}
        self._is_recorded = is_recorded
        self._is_repeatable = is_repeatable
        self._attempts: list[set[int]] = []

    def doubt(self, leases: set[int], calls: int) -> None:
        """Note an attempt that may have taken effect, with the ids that its lease may have."""
        self.doubtful.update(dict.fromkeys(leases, calls))
        self._attempts.append(leases)

    def outcome(self, leases: Sequence[tuple[Any, ...]]) -> tuple[Any, ...] | None:
        """Return what an attempt wrote, or None if the write has to be sent again.

        Args:
            leases: as they are since they were retired.

        Raises:
            UnknownOutcome: a lease is missing, and the write must not be repeated in vain.
        """
        for lease, calls, *outcome in leases:
            if self.doubtful.get(lease) == calls and not (self._is_recorded and outcome[0] is None):
                return tuple(outcome)
        found = {lease for lease, *_ in leases}
        if not self._is_repeatable and any(map(found.isdisjoint, self._attempts)):
            raise UnknownOutcome("the server has restarted, and the reply was lost")
        return None


class Statement(NamedTuple):
    """A statement of a call.

    Args:
        prepare: as psycopg takes it.
        has_rows: whether its rows are read.
        write: the attempts so far, if it is a write.
    """

    sql: bytes
    parameters: Parameters
    prepare: bool | None = None
    has_rows: bool = True
    write: Attempts | None = None
