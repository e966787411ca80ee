"""Rankings by vectors, and of rankings: cosine, reciprocal ranks."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from operator import mul
from typing import Any, TypeAlias

__all__ = [
    "Embed",
    "Ranking",
    "fused",
    "packed_vector",
    "ranked_by_vector",
]

Embed: TypeAlias = Callable[[list[str]], Any]
"""Returns a vector (a sequence of numbers) for each of some texts."""

Ranking: TypeAlias = list[tuple[str, float]]
"""Ids with their scores, best first."""

_RANK_OFFSET = 60  # of reciprocal rank fusion, as in the paper that introduced it


def packed_vector(vector: Iterable[float]) -> bytes | None:
    """Return a vector of length 1 in the same direction, as floats of 32 bits; None of a zero.

    Raises:
        ValueError: a number is not finite.
    """
    numbers = [float(number) for number in vector]
    if not all(map(math.isfinite, numbers)):
        raise ValueError("embed must return finite numbers")
    largest = max(map(abs, numbers), default=0.0)
    if not largest:
        return None
    numbers = [number / largest for number in numbers]  # their squares do not overflow
    length = math.sqrt(sum(map(mul, numbers, numbers)))
    return struct.pack(f"<{len(numbers)}f", *(number / length for number in numbers))


def ranked_by_vector(query: bytes, vectors: Iterable[tuple[str, bytes]]) -> Ranking:
    """Rank vectors by their cosine with that of the query, exactly.

    Args:
        query, vectors: as `packed_vector` returns them; those of another number of dimensions,
            which come from another model, are left out.
    """
    wanted = struct.unpack(f"<{len(query) // 4}f", query)
    ranking = [
        (name, sum(map(mul, wanted, struct.unpack(f"<{len(wanted)}f", vector))))
        for name, vector in vectors
        if len(vector) == len(query)
    ]
    return sorted(ranking, key=lambda pair: -pair[1])


def fused(rankings: Sequence[Ranking]) -> Ranking:
    """Return one ranking of several, by the sum of reciprocal ranks."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, (name, _) in enumerate(ranking, 1):
            scores[name] = scores.get(name, 0.0) + 1 / (_RANK_OFFSET + rank)
    return sorted(scores.items(), key=lambda pair: -pair[1])
