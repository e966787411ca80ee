"""What a query finds in a text, and how what is found is ranked."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine import ConfigurationError
from jazzmine.search.analyser import Analyser, terms_of
from jazzmine.search.query import Clause, Term, parse_query, spans_of
from jazzmine.search.ranking import MOST_READ, clauses_to_find, matches, ranked

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
