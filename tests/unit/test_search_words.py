"""Words of a text, and rankings of texts by words and by vectors."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest

from jazzmine.search.analyser import Analyser
from jazzmine.search.ranking import ranked_by_words, text_of
from jazzmine.search.vectors import fused, packed_vectors, ranked_by_vector


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" .,!?-- \n", []),
        ("Green TEA, green tea!", ["green", "tea", "green", "tea"]),
        ("don't it\u2019s 'quoted'", ["don't", "it's", "quoted"]),
        ("x1 2.5 snake_case e-mail", ["x1", "2.5", "snake_case", "e", "mail"]),
        ("see example.com. 1,000 a.1", ["see", "example.com", "1,000", "a", "1"]),
        ("soft\u00adware zero\u200bwidth", ["software", "zero", "width"]),
        ("CAFÉ cafe\u0301 café", ["cafe", "cafe", "cafe"]),
        ("ﬁne Straße STRASSE ２５", ["fine", "strasse", "strasse", "25"]),
        ("İstanbul Ελλάς", ["istanbul", "ελλασ"]),
        ("한국에서 한국", ["한국", "국에", "에서", "서", "한국", "국"]),
        ("Łódź Øl Straßenbahn I\u0131 æ", ["lodz", "ol", "strassenbahn", "ii", "æ"]),
        ("東京都 京", ["東京", "京都", "都", "京"]),
        ("Tokyo東京x", ["tokyo", "東京", "京", "x"]),
        ("हिन्दी", ["हनद"]),
    ],
)
def test_words_are_compared_without_case_and_marks(text: str, words: list[str]) -> None:
    analyser = Analyser()

    assert [word.form for word in analyser.words(text)] == words
    assert analyser.entry(text) == " ".join(words)


def test_all_texts_in_a_value_are_searched() -> None:
    value: Any = {"a": "one", "b": [{"c": "two"}, 3, None, ["four"]], "d": {"e": True}}

    assert text_of(value) == "one\ntwo\nfour"


def test_the_scores_are_those_of_bm25() -> None:
    texts = {"1": "tea", "2": "tea tea milk", "3": "milk and sugar", "4": "x"}

    ranking = ranked_by_words("Tea tea", texts)

    rarity = math.log(1 + 2.5 / 2.5)
    short = rarity * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 1 / 2))
    long = rarity * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 2))
    assert [name for name, _ in ranking] == ["2", "1"] or short > long
    assert dict(ranking) == {"1": pytest.approx(short), "2": pytest.approx(long)}


@pytest.mark.parametrize("factor", [1.0, 1e-300, 1e300])
def test_a_vector_has_length_1(factor: float) -> None:
    packed = packed_vectors([[3 * factor, -4 * factor], [0.0, 0.0], [0.0, factor]])

    assert packed is not None
    assert struct.unpack("<I4f", packed) == pytest.approx((2, 0.6, -0.8, 0, 1))
    assert packed_vectors([[0.0, 0.0]]) is None
    assert packed_vectors([]) is None
    with pytest.raises(ValueError, match="finite"):
        packed_vectors([[math.inf]])
    with pytest.raises(ValueError, match="one number of dimensions"):
        packed_vectors([[factor], [factor, factor]])


def test_vectors_are_ranked_by_their_cosine() -> None:
    vectors: dict[str, list[list[float]]] = {
        "far": [[-1, 0]],
        "near": [[-1, 0], [2, 0.1], [0, 1]],
        "right": [[0, 3]],
        "other model": [[1, 0, 0]],
        "another model": [[1], [1]],
    }
    packed = [(name, packed_vectors(several) or b"") for name, several in vectors.items()]

    ranking = ranked_by_vector(packed_vectors([[5, 0]]) or b"", packed)

    assert [name for name, _ in ranking] == ["near", "right", "far"]
    assert ranking[2][1] == pytest.approx(-1)


def test_rankings_are_fused_by_reciprocal_ranks() -> None:
    ranking = fused([[("a", 9.0), ("b", 8.0)], [("b", 0.5), ("c", 0.1)]])

    assert ranking == [("b", 1 / 62 + 1 / 61), ("a", 1 / 61), ("c", 1 / 62)]
