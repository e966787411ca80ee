"""Rankings by vectors, and of rankings: cosine, reciprocal ranks."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from operator import mul
from typing import Any, TypeAlias

Embed: TypeAlias = Callable[[list[str]], Any]
"""Returns a vector (a sequence of numbers) for each of some texts."""

Ranking: TypeAlias = list[tuple[str, float]]
"""Ids with their scores, best first."""

_RANK_OFFSET = 60  # of reciprocal rank fusion, as in the paper that introduced it


def packed_vectors(vectors: Iterable[Iterable[float]]) -> bytes | None:
    """Return the number of dimensions of vectors, and one of length 1 in the direction of each.

    The numbers are floats of 32 bits. Zeros are left out; None is returned if nothing is left.

    Raises:
        ValueError: a number is not finite, or the vectors have different numbers of dimensions.
    """
    packed = [vector for vector in map(_packed, vectors) if vector]
    if len(set(map(len, packed))) > 1:
        raise ValueError("embed must return vectors of one number of dimensions")
    return struct.pack("<I", len(packed[0]) // 4) + b"".join(packed) if packed else None


def length_of(packed: bytes) -> int:
    """Return the number of dimensions of packed vectors."""
    length: int = struct.unpack_from("<I", packed)[0]
    return length


def _packed(vector: Iterable[float]) -> bytes:
    if not isinstance(vector, Iterable):
        raise TypeError(f"embed must return vectors of numbers, not of {type(vector).__name__}")
    numbers = [float(number) for number in vector]
    if not all(map(math.isfinite, numbers)):
        raise ValueError("embed must return finite numbers")
    largest = max(map(abs, numbers), default=0.0)
    if not largest:
        return b""
    numbers = [number / largest for number in numbers]  # their squares do not overflow
    length = math.sqrt(sum(map(mul, numbers, numbers)))
    return struct.pack(f"<{len(numbers)}f", *(number / length for number in numbers))


def ranked_by_vector(query: bytes, vectors: Iterable[tuple[str, bytes]]) -> Ranking:
    """Rank packed vectors by their cosine with the query's, exactly; several by the highest.

    Those of another number of dimensions, which come from another model, are left out.
    """
    head, numbers = query[:4], struct.Struct(f"<{(len(query) - 4) // 4}f")
    wanted = numbers.unpack_from(query, 4)
    ranking = [
        (
            name,
            max(
                sum(map(mul, wanted, numbers.unpack_from(packed, start)))
                for start in range(4, len(packed), numbers.size)
            ),
        )
        for name, packed in vectors
        if packed[:4] == head
    ]
    return sorted(ranking, key=lambda pair: -pair[1])


def fused(rankings: Sequence[Ranking]) -> Ranking:
    """Return one ranking of several, by the sum of reciprocal ranks."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, (name, _) in enumerate(ranking, 1):
            scores[name] = scores.get(name, 0.0) + 1 / (_RANK_OFFSET + rank)
    return sorted(scores.items(), key=lambda pair: -pair[1])
