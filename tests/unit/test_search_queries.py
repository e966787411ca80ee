"""What a query finds in a text, and how what is found is ranked."""

from __future__ import annotations

import math
import struct
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine import ConfigurationError
from jazzmine.search.analyser import Analyser, terms_of
from jazzmine.search.query import Clause, Term, parse_query, spans_of
from jazzmine.search.ranking import (
    MOST_READ,
    clauses_to_find,
    matches,
    ranked,
    ranked_by_words,
    text_of,
)
from jazzmine.search.vectors import fused, packed_vectors, ranked_by_vector

PLAIN = Analyser()
ENGLISH = Analyser("english")

words = st.text(
    st.sampled_from("aZ9é\u0301ﬁßİǆ'’._-\u00ad\u200b 日本語かガﾞ\u3099ㄱ하\u1112\u1161สวัส😀½\n\0")
)


def finds(query: str, text: str, analyser: Analyser = PLAIN) -> bool:
    return matches(analyser.entry(text), parse_query(query, analyser))


@given(st.text() | words)
def test_the_words_of_a_text_have_their_places_in_it(text: str) -> None:
    for analyser in (PLAIN, ENGLISH):
        found = analyser.words(text)
        assert [word.form for word in found] == analyser.entry(text).split()
        for word in found:
            assert 0 <= word.start < word.end <= len(text)
            part = analyser.words(text[word.start : word.end])
            assert word.form in [one.form for one in part]


@given(st.text() | words)
def test_case_and_composition_change_no_word(text: str) -> None:
    entry = PLAIN.entry(text)

    for form in ("NFC", "NFD", "NFKC"):
        assert PLAIN.entry(unicodedata.normalize(form, text)) == entry
    assert not set('|:"\0') & set(entry)


@given(st.text() | words)
def test_any_text_is_a_query(text: str) -> None:
    query = parse_query(text, ENGLISH)

    assert len(query.clauses) <= 64
    for start, end in spans_of(query, text, ENGLISH):
        assert 0 <= start < end <= len(text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("CAFE", "a café"),
        ('"green tea"', "Green, tea"),
        ('"gre* tea', "gre tea"),
        ('"green t*"', "green tea"),
        ("te*", "tea"),
        ("tea -milk", "tea"),
        ('tea -"no milk"', "tea, milk, no sugar"),
        ("日本", "日本語"),
        ("語", "日本語"),
        ("日", "日本語"),
        ('"日本 語"', "日本 語です"),
        ("e-mail", "an e-mail"),
        ("“green tea”", "green tea"),
    ],
)
def test_a_query_finds(query: str, text: str) -> None:
    assert finds(query, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("te", "tea"),
        ('"tea green"', "green tea"),
        ("tea -milk", "tea, milk"),
        ('tea -"no milk"', "tea, no milk"),
        ("本日", "日本"),
        ("か", "がらす"),
        ("example", "example.com"),
    ],
)
def test_a_query_does_not_find(query: str, text: str) -> None:
    assert not finds(query, text)


def test_forms_of_a_word_are_found_where_a_language_is_set() -> None:
    assert finds("refunds", "refunding", ENGLISH)
    assert not finds("refunds", "refunding")
    assert finds("refundi*", "refunding", ENGLISH)  # the beginning of the word, not of its stem
    french = Analyser("french")
    assert finds("préférer", "préférées", french)
    assert terms_of(ENGLISH.entry("Running runs")) == ["run", "running", "runs"]
    with pytest.raises(ConfigurationError, match="did you mean 'english'"):
        Analyser("englisch")


def test_a_long_text_and_a_long_word_are_cut() -> None:
    assert PLAIN.entry("x" * 100) == "x" * 64
    assert finds("x" * 90, "x" * 100)
    assert len(PLAIN.entry("ab " * 50_000)) <= 100_000


def clause(word: str) -> Clause:
    return Clause((Term((word,)),))


def test_the_rarest_words_find_and_those_of_half_of_many_messages_do_not() -> None:
    many, few, none, half = map(clause, ("many", "few", "none", "half"))
    wanted = [many, few, none, half]

    assert clauses_to_find(wanted, (10_000, [1_990, 10, 0, 5_000])) == [few, many]
    assert clauses_to_find(wanted, (10_000, [1_991, 10, 0, 5_000])) == [few]
    assert clauses_to_find([many], (100_000, [50_000])) == [many]
    assert clauses_to_find([half], (100, [50])) == [half]
    assert clauses_to_find([half, many], (200, [100, 150])) == [half, many]
    assert clauses_to_find([half, few], (200, [100, 1])) == [few]
    assert clauses_to_find([half], (99, [50])) == [half]
    assert MOST_READ == 2_000


def test_an_entry_needs_one_of_the_clauses_that_find() -> None:
    query = parse_query("rare the -bad", PLAIN)
    entries = ["the", "rare the", "rare bad"]

    ranking = ranked(entries, query, (200, [2, 150]), query.clauses[:1])

    assert [place for place, _ in ranking] == [1]


# Words and rankings


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
