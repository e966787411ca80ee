"""Queries: words, "quoted phrases", `prefix*` and `-word`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jazzmine.search.analyser import Analyser, Word, is_part_of_pair

# An agent may ask with a whole text.
_MOST_CLAUSES = 64

_QUOTES = '"\u201c\u201d'
_PART = re.compile(rf"(-?)[{_QUOTES}]([^{_QUOTES}]*)[{_QUOTES}]?|(-?)([^\s{_QUOTES}]+)")


class Term(NamedTuple):
    """A word of a query: it, its stem, or longer words that begin with one of these."""

    forms: tuple[str, ...]
    is_prefix: bool = False

    def is_in(self, form: str) -> bool:
        """Return whether a word in an index entry counts."""
        if form in self.forms or (self.is_prefix and form.startswith(self.forms)):
            return True
        if "|" not in form:
            return False
        parts = form.split("|")
        if self.is_prefix:
            return any(part.startswith(self.forms) for part in parts)
        return not set(parts).isdisjoint(self.forms)


class Clause(NamedTuple):
    """A word, or the words of a phrase, directly after each other.

    For an index, a message has the clause if it has each of the terms, in any order.
    """

    terms: tuple[Term, ...]

    def places(self, forms: Sequence[str]) -> list[int]:
        """Return where the clause begins, each as an index of the words of an entry."""
        first = self.terms[0]
        if len(self.terms) == 1:
            return [place for place, form in enumerate(forms) if first.is_in(form)]
        return [
            place
            for place in range(len(forms) - len(self.terms) + 1)
            if all(term.is_in(forms[place + n]) for n, term in enumerate(self.terms))
        ]


class SearchState(NamedTuple):
    """The state of a search index: the language of the stems, "" without, and its completeness."""

    language: str
    is_complete: bool


class Query(NamedTuple):
    """What to find, and what must not occur, without repetitions."""

    clauses: tuple[Clause, ...]
    excluded: tuple[Clause, ...]


class SearchScope(NamedTuple):
    """The messages to search; all given conditions must hold.

    `roles` are values of `MessageRole`, none for all. `timestamp` is at least `since` and less than
    `until`, in ms.
    """

    user_id: str | None = None
    conversation_id: str | None = None
    agent_id: str | None = None
    roles: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None


class FoundPage(NamedTuple):
    """A page of the messages that have all terms of every clause, or of one of them, newest first.

    They have none of the terms in `without`. The message `after` need not match, but has to be of
    the user, the conversation and the agent of the scope.
    """

    clauses: Sequence[Clause]
    every: bool
    without: Sequence[Term]
    scope: SearchScope
    limit: int
    after: str | None


def parse_query(text: str, analyser: Analyser) -> Query:
    """Read a query; other signs are left out, and a quote may lack its end."""
    wanted: dict[Clause, None] = {}
    excluded: dict[Clause, None] = {}
    for minus, phrase, sign, word in _PART.findall(text):
        if minus or sign:
            if terms := _phrase(phrase or word, analyser):
                excluded[Clause(terms)] = None
        elif phrase:
            if terms := _phrase(phrase, analyser):
                wanted[Clause(terms)] = None
        else:
            wanted.update((Clause((term,)), None) for term in _words(word, analyser))
    return Query(tuple(wanted)[:_MOST_CLAUSES], tuple(excluded)[:_MOST_CLAUSES])


def _phrase(text: str, analyser: Analyser) -> tuple[Term, ...]:
    words = analyser.words(text)
    if len(words) > 1 and words[-1].start < words[-2].end:
        words.pop()  # the last character of a pair: in a text, the pair may go on
    last = len(words) - 1
    return tuple(_term(text, word, number == last) for number, word in enumerate(words))


def _words(text: str, analyser: Analyser) -> Iterator[Term]:
    words = analyser.words(text)
    for number, word in enumerate(words):
        if not number or words[number - 1].end <= word.start or word.end - word.start > 1:
            yield _term(text, word, number == len(words) - 1 or text.startswith("*", word.end))


def _term(text: str, word: Word, is_last: bool) -> Term:
    """Return the term of a word; one character of a pair is the beginning of pairs."""
    forms = word.form.split("|")
    if is_last and (text.startswith("*", word.end) or is_part_of_pair(word.form)):
        return Term((forms[0],), is_prefix=True)
    return Term(tuple(forms))


def spans_of(query: Query, text: str, analyser: Analyser) -> list[tuple[int, int]]:
    """Return the places of a query's clauses in a text, in order; overlapping places are one."""
    words = analyser.words(text)
    forms = [word.form for word in words]
    places = sorted(
        (words[place].start, words[place + len(clause.terms) - 1].end)
        for clause in query.clauses
        for place in clause.places(forms)
    )
    spans: list[tuple[int, int]] = []
    for start, end in places:
        if spans and start < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans
