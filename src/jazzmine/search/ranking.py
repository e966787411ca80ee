"""Rank texts by the words of a query: BM25 on index entries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from jazzmine.search.analyser import Analyser
from jazzmine.search.query import Clause, Query, Term, parse_query

MOST_READ = 2000
"""How many messages a search reads."""

MOST_MESSAGES_COUNTED, MOST_FOUND_COUNTED = 20_000, 10_000
"""Up to how many the messages of a scope are counted, and those that have a clause."""

Counts: TypeAlias = tuple[int, Sequence[int]]
"""How many messages there are, and how many of them have each of some clauses."""

_K1, _B = 1.2, 0.75

# From this number of messages on, a word in half of them is left out beside rarer ones.
_MANY_MESSAGES = 100


def clauses_to_find(clauses: Sequence[Clause], counts: Counts) -> list[Clause]:
    """Return the clauses of which a message needs one, rarest first.

    A word in half of many messages is taken only if there is no rarer one. Of the others the rarest
    are taken, as long as no more than 2,000 messages have them; the rarest in any case.
    """
    total, found = counts
    is_countable = _MANY_MESSAGES <= total < MOST_MESSAGES_COUNTED
    known = sorted((count, place) for place, count in enumerate(found) if count)
    rare = [(count, place) for count, place in known if count * 2 < total] if is_countable else []
    chosen: list[Clause] = []
    messages = 0
    for count, place in rare or known:
        messages += count
        if chosen and messages > MOST_READ:
            break
        chosen.append(clauses[place])
    return chosen


def ranked(
    entries: Sequence[str], query: Query, counts: Counts, needed: Sequence[Clause]
) -> list[tuple[int, float]]:
    """Rank index entries by BM25 (k1 1.2, b 0.75); equal scores keep their order.

    An entry must have one of the clauses `needed`, and no excluded one. BM25 takes the frequencies
    in `counts`, and the average length of the entries. The result has the places of the entries.
    """
    texts = [entry.split() for entry in entries]
    lengths = list(map(len, texts))
    average = sum(lengths) / max(1, len(lengths)) or 1.0  # without any word, all score 0
    norms = [_K1 * (1 - _B + _B * length / average) for length in lengths]
    by_part = _forms_by_part(texts)
    scores, chosen = [0.0] * len(texts), set[int]()
    for clause, count in zip(query.clauses, counts[1], strict=True):
        rarity = _rarity(counts[0], count)
        found = _counted([_forms_of(term, by_part) for term in clause.terms], texts)
        for place, n in enumerate(found):
            if n:
                scores[place] += rarity * n * (_K1 + 1) / (n + norms[place])
        if clause in needed:
            chosen.update(place for place, n in enumerate(found) if n)
    if query.excluded:
        chosen = {place for place in chosen if not _is_excluded(texts[place], query)}
    ranking = [(place, scores[place]) for place in sorted(chosen)]
    return sorted(ranking, key=lambda pair: -pair[1])


def _forms_by_part(texts: Iterable[Iterable[str]]) -> dict[str, set[str]]:
    """Return the forms of some texts, for each word and each stem in them."""
    found: dict[str, set[str]] = {}
    for form in set[str]().union(*texts):
        for part in form.split("|"):
            found.setdefault(part, set()).add(form)
    return found


def _forms_of(term: Term, by_part: Mapping[str, set[str]]) -> set[str]:
    parts: Iterable[str] = term.forms
    if term.is_prefix:
        parts = [part for part in by_part if part.startswith(term.forms)]
    return set[str]().union(*(by_part.get(part, ()) for part in parts))


def _counted(terms: Sequence[set[str]], texts: Sequence[Sequence[str]]) -> list[int]:
    """Count in each text what has a form of each of the terms, one directly after another."""
    first, *others = terms
    return [0 if first.isdisjoint(text) else _count(first, others, text) for text in texts]


def _count(first: set[str], others: Sequence[set[str]], text: Sequence[str]) -> int:
    if not others:
        return sum(map(first.__contains__, text))
    return sum(
        len(text) - place > len(others)
        and all(text[place + n] in wanted for n, wanted in enumerate(others, 1))
        for place, form in enumerate(text)
        if form in first
    )


def matches(entry: str, query: Query) -> bool:
    """Return whether an index entry has all clauses of a query, and no excluded one."""
    forms = entry.split()
    return all(clause.places(forms) for clause in query.clauses) and not _is_excluded(forms, query)


def _is_excluded(forms: Sequence[str], query: Query) -> bool:
    return any(clause.places(forms) for clause in query.excluded)


def _rarity(total: int, count: int) -> float:
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def ranked_by_words(query: str, texts: Mapping[str, str]) -> list[tuple[str, float]]:
    """Rank the texts, by their ids, that have a clause of a query."""
    analyser = Analyser()
    wanted = parse_query(query, analyser)
    names, entries = list(texts), [analyser.entry(text) for text in texts.values()]
    forms = [entry.split() for entry in entries]
    found = [sum(bool(clause.places(each)) for each in forms) for clause in wanted.clauses]
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
