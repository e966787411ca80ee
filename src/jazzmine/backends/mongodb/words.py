"""The search index: the fields of a message for it, and the queries of searches.

`search_entry` is the entry of a message, `search_terms` are its words and stems, `search_language`
is the language of the index. A process that does not know the index stores a message without a
language, or with another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jazzmine.backends.mongodb.documents import Document
from jazzmine.backends.mongodb.indexes import MESSAGES, Index
from jazzmine.backends.mongodb.queries import Listing, equal
from jazzmine.search.query import Clause, SearchScope, Term

__all__ = [
    "FOUND",
    "SEARCH_INDEXES",
    "clause_query",
    "conversations_query",
    "found_query",
    "owner_query",
    "pending",
    "scope_query",
]

SEARCH_INDEXES: tuple[Index, ...] = (
    Index((("search_terms", 1), ("timestamp", 1), ("_id", 1))),
    Index((("user_id", 1), ("search_terms", 1), ("timestamp", 1), ("_id", 1))),
    Index((("search_language", 1),)),
)

FOUND = Listing(MESSAGES, "timestamp", -1, member="message that is searched")

_LAST_CHARACTER = "\U0010ffff"  # no word has it


def pending(language: str) -> Document:
    """Build the query for the messages that have no entry for a language."""
    return {"search_language": {"$ne": language}}


def conversations_query(scope: SearchScope) -> Document:
    """Build the query for the conversations that a scope is limited to, empty for all."""
    return {} if scope.agent_id is None else equal(agent_id=scope.agent_id)


def scope_query(scope: SearchScope, within: Sequence[str] | None) -> Document:
    """Build the query for the messages of a scope.

    Args:
        scope: the messages to search.
        within: the ids of the conversations of `conversations_query`; None is all.
    """
    conditions = [owner_query(scope, within)]
    if scope.roles:
        conditions.append({"role": {"$in": list(scope.roles)}})
    for operator, time in (("$gte", scope.since), ("$lt", scope.until)):
        if time is not None:
            conditions.append({"timestamp": {operator: time}})
    return _all(conditions)


def owner_query(scope: SearchScope, within: Sequence[str] | None) -> Document:
    """Build the query for the messages of a scope's user and conversations."""
    conditions: list[Document] = []
    if scope.user_id is not None:
        conditions.append(equal(user_id=scope.user_id))
    if scope.conversation_id is not None:
        conditions.append(equal(conversation_id=scope.conversation_id))
    if within is not None:
        conditions.append({"conversation_id": {"$in": list(within)}})
    return _all(conditions)


def clause_query(clause: Clause) -> Document:
    """Build the query for the messages that have all terms of a clause."""
    return _all(list(map(_term_query, clause.terms)))


def found_query(
    clauses: Sequence[Clause], every: bool, without: Sequence[Term], scope: Document
) -> Document:
    """Build the query for a list of messages.

    Args:
        clauses: the clauses of the query.
        every: whether a message needs all of the clauses, or one.
        without: the clauses that it must not have.
        scope: the query for the messages to search.
    """
    wanted = list(map(clause_query, clauses))
    conditions = [scope, *(wanted if every else [{"$or": wanted}])]
    if without:
        conditions.append({"$nor": list(map(_term_query, without))})
    return _all(conditions)


def _term_query(term: Term) -> Document:
    if not term.is_prefix:
        return {"search_terms": {"$in": list(term.forms)}}
    # A range of the index; one element has to be in it.
    ranges = [{"$gte": form, "$lt": form + _LAST_CHARACTER} for form in term.forms]
    return {"$or": [{"search_terms": {"$elemMatch": bounds}} for bounds in ranges]}


def _all(conditions: list[dict[str, Any]]) -> Document:
    given = [condition for condition in conditions if condition]
    return {"$and": given} if given else {}
