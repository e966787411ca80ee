"""How a store finds messages by their words, and how it gets the index for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from jazzmine._async.message_store.backend import MessageBackend
from jazzmine._compat.concurrency import async_run_blocking as run_blocking
from jazzmine.errors import ConfigurationError
from jazzmine.records.hook_arguments import ConversationPage
from jazzmine.records.rows import Row, are_many, row_id
from jazzmine.search.analyser import Analyser, analyser_for
from jazzmine.search.query import Clause, FoundPage, Query, SearchScope, Term, spans_of
from jazzmine.search.ranking import MOST_READ, Counts, clauses_to_find, matches, ranked

__all__ = [
    "find_best",
    "find_newest",
    "find_spans",
    "require_search",
    "run_analysis",
    "settle_search",
]

T = TypeVar("T")

# The words of so many characters are found in a few milliseconds, with their stems, too.
_FEW_CHARACTERS = 5_000


async def settle_search(backend: MessageBackend, language: str | None) -> None:
    """Make the index that a configuration asks for, if nothing is stored yet.

    Args:
        backend: it is open.
        language: that of the index; None leaves the store as it is.

    Raises:
        ConfigurationError: something is stored, and the store has no index, or another one.
        ImportError: the package for the stems of its language is not installed.
    """
    state = await backend.search_state()
    if language is not None and (state is None or state.language != language):
        analyser_for(language)
        if await backend.list_conversations(ConversationPage(None, "", {}, 1, None)):
            # Another process may have made the index, and stored something, meanwhile.
            state = await backend.search_state()
            if state is not None and state.language == language:
                return
            other = "has none" if state is None else f"has search {_shown(state.language)}"
            option = f" --language {language}" if language else ""
            raise ConfigurationError(
                f"the configuration says search {_shown(language)}, and the store {other}; the"
                f" command `jazzmine index{option}` adds or changes it"
            )
        await backend.make_search(language)
    elif state is not None:
        analyser_for(state.language)


def _shown(language: str) -> str:
    return repr(language) if language else "True"


async def require_search(backend: MessageBackend) -> Analyser:
    """Return the analyser of a store's index, which is up to date.

    Raises:
        ConfigurationError: the store has none, or it is not complete.
    """
    state = await backend.prepare_search()
    if state is None:
        raise ConfigurationError(
            "this store has no search; the command `jazzmine index` adds it, and the option"
            " `search` to a new store"
        )
    if not state.is_complete:
        raise ConfigurationError(
            "the search of this store is not complete yet; the command `jazzmine index` goes on"
            " with it"
        )
    return analyser_for(state.language)


async def find_best(
    backend: MessageBackend, query: Query, scope: SearchScope, limit: int
) -> dict[str, float]:
    """Return the ids of the messages that match a query best, with their scores."""

    async def read(clauses: Sequence[Clause]) -> Sequence[Row]:
        page = FoundPage(clauses, False, _terms(query), scope, MOST_READ, None)
        return await backend.list_found(page)

    clauses = query.clauses
    rows: Sequence[Row] = ()
    if len(clauses) == 1:
        # There is nothing to choose by counts; and if the list is whole, it is one itself.
        rows = await read(clauses)
        if not rows:
            return {}
    if 0 < len(rows) < MOST_READ and not query.excluded:
        total, _ = await backend.count_found((), scope)
        counts: Counts = total, [len(rows)]
    else:
        counts = await backend.count_found(clauses, scope)
    needed = clauses_to_find(clauses, counts)
    if not needed:
        return {}
    if len(clauses) > 1:
        rows = await read(needed)
    entries = [str(row[1], "utf-8") if isinstance(row[1], bytes) else row[1] for row in rows]
    if are_many(rows):
        # Ranking them here would keep other calls waiting.
        ranking = await run_blocking(ranked, entries, query, counts, needed)
    else:
        ranking = ranked(entries, query, counts, needed)
    return {row_id(rows[place]): score for place, score in ranking[:limit]}


async def find_newest(
    backend: MessageBackend, query: Query, scope: SearchScope, limit: int, after: str | None
) -> dict[str, float]:
    """Return the ids of the newest messages that have all of a query."""
    found: dict[str, float] = {}
    read, size = 0, max(1, limit)  # a limit of 0 finds out whether there is an `after`
    while read < MOST_READ:
        size = min(size, MOST_READ - read)
        page = FoundPage(query.clauses, True, _terms(query), scope, size, after)
        rows = await backend.list_found(page)
        for row in rows:
            entry = str(row[1], "utf-8") if isinstance(row[1], bytes) else row[1]
            if matches(entry, query):
                found[row_id(row)] = 0.0
        if len(rows) < size or len(found) >= limit:
            break
        read += len(rows)
        size *= 2
        after = row_id(rows[-1])
    return dict(list(found.items())[:limit])


async def find_spans(
    query: Query, texts: Sequence[str], analyser: Analyser
) -> list[list[tuple[int, int]]]:
    """Return the places of what a query wants, for each of some texts."""

    def spans() -> list[list[tuple[int, int]]]:
        return [spans_of(query, text, analyser) for text in texts]

    return await run_analysis(texts, spans)


async def run_analysis(texts: Iterable[str], function: Callable[..., T], *args: Any) -> T:
    """Return the result of a function that finds the words of some texts."""
    if sum(map(len, texts)) > _FEW_CHARACTERS:
        # Finding them here would keep other calls waiting.
        result: T = await run_blocking(function, *args)
        return result
    return function(*args)


def _terms(query: Query) -> list[Term]:
    """Return the terms that an index can exclude; phrases are excluded by the text."""
    return [clause.terms[0] for clause in query.excluded if len(clause.terms) == 1]
