"""Which items of a history belong together: a model refuses half of a pair without the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

# What stays whatever becomes of its neighbours.
_ALONE = frozenset(("said", "other", "waiting", "end"))


class Part(NamedTuple):
    """What an item of a history is to its neighbours.

    Args:
        kind: "call" and "answer", which have a key in common (a tool's call and its result, an
            approval's request and its answer); "reasoning", which belongs to the calls and texts
            of the same answer of the model, those that follow; "said" for the model's text; "other"
            for what no model has made; "waiting" for a call that may be answered at any time, as
            its framework knows; "end" for no item, but the end of an answer, if it is known.
        key: what a call and its answer have in common.
        is_hidden: whether the item is left out already.
    """

    kind: Literal["call", "answer", "reasoning", "said", "other", "waiting", "end"]
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
    for call, answers in _answers(parts).items():
        if call is None:  # the answers of calls that are gone
            kept = False
        elif answers:
            kept = stays[call] and any(stays[answer] for answer in answers)
        else:
            kept = stays[call] and call > last
        if not kept:
            for index in answers if call is None else (call, *answers):
                stays[index] = False


def _answers(parts: Sequence[Part]) -> dict[int | None, list[int]]:
    """Return the answers to each call, and under None those to no call.

    An answer belongs to the newest call before it that waits for one, since keys may come again in
    a later turn, or else to the one that had the answer before: it may be a better one.
    """
    found: dict[int | None, list[int]] = {}
    waiting: dict[str, list[int]] = {}
    answered: dict[str, int] = {}
    for index, part in enumerate(parts):
        if part.kind == "call":
            found[index] = []
            waiting.setdefault(part.key, []).append(index)
        elif part.kind == "answer":
            if waiting.get(part.key):
                answered[part.key] = waiting[part.key].pop()
            found.setdefault(answered.get(part.key), []).append(index)
    return found


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
