"""Which items of a history belong together: a model refuses half of a pair without the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

__all__ = ["Part", "whole"]


# What stays whatever becomes of its neighbours.
_ALONE = frozenset(("said", "other", "end"))


class Part(NamedTuple):
    """What an item of a history is to its neighbours.

    Args:
        kind: "call" and "answer", which have a key in common (a tool's call and its result, an
            approval's request and its answer); "reasoning", which belongs to the calls and texts
            of the same answer of the model, those that follow; "said" for the model's text; "other"
            for what no model has made; "end" for no item, but the end of an answer, if it is known.
        key: what a call and its answer have in common.
        is_hidden: whether the item is left out already.
    """

    kind: Literal["call", "answer", "reasoning", "said", "other", "end"]
    key: str = ""
    is_hidden: bool = False


def whole(parts: Sequence[Part]) -> list[bool]:
    """Return for each part of a history, oldest first, whether it stays.

    An answer stays with its call alone. A call stays with its answer; without one, only while
    nothing but other calls and their answers follows, since it may be answered yet. Reasoning and
    what follows it of the same answer of the model stay together: reasoning without any of it goes,
    and so does all of it if the reasoning was hidden.
    """
    stays = [not part.is_hidden for part in parts]
    if _ALONE.issuperset([part.kind for part in parts]):
        return stays
    while True:
        before = list(stays)
        _match_calls(parts, stays)
        _match_reasoning(parts, stays)
        if stays == before:
            return stays


def _match_calls(parts: Sequence[Part], stays: list[bool]) -> None:
    last = max((i for i, part in enumerate(parts) if part.kind in ("said", "other")), default=-1)
    answered = {part.key for part, stay in zip(parts, stays, strict=True) if part.kind == "answer"}
    kept = {
        part.key for part, stay in zip(parts, stays, strict=True) if stay and part.kind == "answer"
    }
    called: set[str] = set()
    for index, part in enumerate(parts):
        if not stays[index]:
            continue
        if part.kind == "call":
            is_open = part.key not in answered and index > last
            stays[index] = part.key in kept or is_open
            called |= {part.key} if stays[index] else set()
        elif part.kind == "answer":
            stays[index] = part.key in called


def _match_reasoning(parts: Sequence[Part], stays: list[bool]) -> None:
    index = 0
    while index < len(parts):
        begin = index
        while index < len(parts) and parts[index].kind == "reasoning":
            index += 1
        end = index
        while end < len(parts) and parts[end].kind in ("call", "said"):
            end += 1
        reasoning, made = range(begin, index), range(index, end)
        if reasoning and not all(stays[i] for i in reasoning):
            for i in (*reasoning, *made):
                stays[i] = False
        elif reasoning and not any(stays[i] for i in made):
            for i in reasoning:
                stays[i] = False
        index = max(end, begin + 1)
