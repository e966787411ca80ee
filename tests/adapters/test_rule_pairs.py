"""No half of a pair, whatever took the other half."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine.adapters._pairs import Part, whole

REASONING, SAID, OTHER = Part("reasoning"), Part("said"), Part("other")


def call(key: str) -> Part:
    return Part("call", key)


def answer(key: str) -> Part:
    return Part("answer", key)


def hidden(part: Part) -> Part:
    return part._replace(is_hidden=True)


@pytest.mark.parametrize(
    ("parts", "kept"),
    [
        ([OTHER, call("a"), answer("a"), SAID], "1111"),
        # The other half was flagged, or deleted.
        ([OTHER, hidden(call("a")), answer("a"), SAID], "1001"),
        ([OTHER, call("a"), hidden(answer("a")), SAID], "1001"),
        ([answer("a"), SAID], "01"),
        ([call("a"), SAID], "01"),
        # Some providers give calls of each turn the same id, or none; an answer may come again.
        ([call("a"), answer("a"), OTHER, call("a"), hidden(answer("a")), SAID], "111001"),
        ([call("a"), answer("a"), OTHER, hidden(call("a")), answer("a"), SAID], "111001"),
        ([call("a"), OTHER, call("a"), answer("a"), SAID], "01111"),
        ([call("a"), call("a"), answer("a"), answer("a"), answer("a"), SAID], "111111"),
        # It may still be answered.
        ([OTHER, call("a")], "11"),
        ([OTHER, call("a"), call("b"), answer("b")], "1111"),
        ([OTHER, call("a"), call("b"), answer("b"), OTHER], "10111"),
        ([OTHER, Part("waiting"), call("a"), OTHER], "1101"),
        # Reasoning, and what follows it of the same answer.
        ([REASONING, SAID], "11"),
        ([REASONING], "0"),
        ([REASONING, OTHER], "01"),
        ([hidden(REASONING), SAID, OTHER], "001"),
        ([REASONING, hidden(call("a")), answer("a"), OTHER], "0001"),
        ([hidden(REASONING), call("a"), answer("a"), OTHER], "0001"),
        ([REASONING, call("a"), REASONING, call("b"), answer("a"), answer("b")], "111111"),
        ([REASONING, Part("end"), SAID], "011"),
    ],
)
def test_halves_go_together(parts: list[Part], kept: str) -> None:
    assert "".join("1" if stays else "0" for stays in whole(parts)) == kept


PARTS = st.lists(
    st.builds(
        Part,
        st.sampled_from(["call", "answer", "reasoning", "said", "other"]),
        st.sampled_from("abc"),
        st.booleans(),
    ),
    max_size=12,
)


@given(PARTS)
def test_what_stays_has_no_halves_and_is_whole_again(parts: list[Any]) -> None:
    kept = [part for part, stays in zip(parts, whole(parts), strict=True) if stays]

    assert not any(part.is_hidden for part in kept)
    assert all(whole(kept))
    called: set[str] = set()
    for part in kept:
        called |= {part.key} if part.kind == "call" else set()
        assert part.kind != "answer" or part.key in called
