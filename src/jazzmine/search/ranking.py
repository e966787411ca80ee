"""Rank texts by the words of a query: BM25 on index entries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

from jazzmine.search.analyser import Analyser
from jazzmine.search.query import Clause, Query, parse_query

__all__ = [
    "MOST_FOUND_COUNTED",
    "MOST_MESSAGES_COUNTED",
    "MOST_READ",
    "Counts",
    "clauses_to_find",
    "matches",
    "ranked",
    "ranked_by_words",
    "text_of",
]

MOST_READ = 2000
"""How many messages a search reads."""

MOST_MESSAGES_COUNTED, MOST_FOUND_COUNTED = 100_000, 50_000
"""Up to how many the messages of a scope are counted, and those that have a clause."""

Counts: TypeAlias = tuple[int, Sequence[int]]
"""How many messages there are, and how many of them have each of some clauses."""

_K1, _B = 1.2, 0.75

# Among so many messages, a word that half of them have says nothing.
_MANY_MESSAGES = 100


def clauses_to_find(clauses: Sequence[Clause], counts: Counts) -> list[Clause]:
    """Return the clauses of which a message needs one, rarest first.

    A word that half of many messages have does not find them. Of the others the rarest are taken,
    as long as no more than 2,000 messages have them; the rarest one in any case.
    """
    total, found = counts
    is_countable = _MANY_MESSAGES <= total < MOST_MESSAGES_COUNTED
    rare = sorted(
        (count, place)
        for place, count in enumerate(found)
        if count and not (is_countable and count * 2 >= total)
    )
    chosen: list[Clause] = []
    messages = 0
    for count, place in rare:
        messages += count
        if chosen and messages > MOST_READ:
            break
        chosen.append(clauses[place])
    return chosen


def ranked(
    entries: Sequence[str], query: Query, counts: Counts, needed: Sequence[Clause]
) -> list[tuple[int, float]]:
    """Rank index entries by BM25 (k1 1.2, b 0.75); equal scores keep their order.

    Args:
        entries: those that an index has found; the average length is theirs.
        query: whose clauses are summed up, and whose exclusions are left out.
        counts: for the clauses of the query.
        needed: the clauses of which an entry must have one.

    Returns:
        The places of the entries with their scores, best first.
    """
    texts = [entry.split() for entry in entries]
    forms = set(chain.from_iterable(texts))
    average = sum(map(len, texts)) / len(texts) if texts else 0.0
    rarity = {
        clause: _rarity(counts[0], n) for clause, n in zip(query.clauses, counts[1], strict=True)
    }
    count = {clause: _counter(clause, forms) for clause in query.clauses}
    ranking = []
    for place, text in enumerate(texts):
        found = {clause: count[clause](text) for clause in query.clauses}
        if any(found[clause] for clause in needed) and not _is_excluded(text, query):
            norm = _K1 * (1 - _B + _B * len(text) / average)
            score = sum(rarity[clause] * n * (_K1 + 1) / (n + norm) for clause, n in found.items())
            ranking.append((place, score))
    return sorted(ranking, key=lambda pair: -pair[1])


def _counter(clause: Clause, forms: set[str]) -> Callable[[Sequence[str]], int]:
    """Return a function that counts a clause in a text.

    Each form is compared with a term once, however many texts have it.

    Args:
        clause: what is counted.
        forms: all forms of the texts.
    """
    first, *others = ({form for form in forms if term.is_in(form)} for term in clause.terms)
    if not others:
        return lambda text: sum([form in first for form in text])

    def count(text: Sequence[str]) -> int:
        starts = [place for place, form in enumerate(text) if form in first]
        return sum(
            len(text) - place > len(others)
            and all(text[place + n] in wanted for n, wanted in enumerate(others, 1))
            for place in starts
        )

    return count


def matches(entry: str, query: Query) -> bool:
    """Return whether an index entry has all that a query wants, and nothing that it excludes."""
    forms = entry.split()
    return all(clause.places(forms) for clause in query.clauses) and not _is_excluded(forms, query)


def _is_excluded(forms: Sequence[str], query: Query) -> bool:
    return any(clause.places(forms) for clause in query.excluded)


def _rarity(total: int, count: int) -> float:
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def ranked_by_words(query: str, texts: Mapping[str, str]) -> list[tuple[str, float]]:
    """Rank the texts that have a clause of a query among all of them.

    Args:
        query: as `parse_query` reads it.
        texts: by id; equal scores keep their order.
    """
    analyser = Analyser()
    wanted = parse_query(query, analyser)
    names, entries = list(texts), [analyser.entry(text) for text in texts.values()]
    texts_as_forms = [entry.split() for entry in entries]
    found = [sum(map(clause.may_be_in, texts_as_forms)) for clause in wanted.clauses]
    ranking = ranked(entries, wanted, (len(entries), found), wanted.clauses)
    return [(names[place], score) for place, score in ranking]


def text_of(value: Any) -> str:
    """Return all strings in a JSON value, in their order, without the keys of objects."""
    return "\n".join(_strings(value))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)
