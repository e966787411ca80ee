"""The indexes and the queries of searches; see `documents.searched_fields`.

A process that does not know the index stores a message without a language, or with another one.
"""

from __future__ import annotations

from collections.abc import Sequence

from jazzmine.backends.mongodb.documents import Document
from jazzmine.backends.mongodb.indexes import MESSAGES, Index
from jazzmine.backends.mongodb.queries import Listing
from jazzmine.search.query import Clause, SearchScope, Term

SEARCH_INDEXES: tuple[Index, ...] = (
    Index((("search_terms", 1), ("timestamp", 1), ("_id", 1))),
    Index((("user_id", 1), ("search_terms", 1), ("timestamp", 1), ("_id", 1))),
    Index((("search_language", 1),)),
)

FOUND = Listing(MESSAGES, "timestamp", -1)

_LAST_CHARACTER = "\U0010ffff"  # no word has it


def pending(language: str) -> Document:
    """Build the query for the messages that have no entry for a language."""
    return {"search_language": {"$ne": language}}


def owner_query(scope: SearchScope, within: Sequence[str] | None) -> Document:
    """Build the query for the messages of a scope's user and conversations.

    Args:
        scope: the messages to search.
        within: the ids of the conversations of the scope's agent; None is all.
    """
    query: Document = {}
    if scope.user_id is not None:
        query["user_id"] = {"$eq": scope.user_id}
    if scope.conversation_id is not None:
        query["conversation_id"] = {"$eq": scope.conversation_id}
    if within is not None:
        query.setdefault("conversation_id", {})["$in"] = list(within)
    return query


def scope_query(scope: SearchScope, within: Sequence[str] | None) -> Document:
    """Build the query for the messages of a scope; see `owner_query`."""
    query = owner_query(scope, within)
    if scope.roles:
        query["role"] = {"$in": list(scope.roles)}
    for operator, time in (("$gte", scope.since), ("$lt", scope.until)):
        if time is not None:
            query.setdefault("timestamp", {})[operator] = time
    return query


def found_query(
    clauses: Sequence[Clause], every: bool, without: Sequence[Term], scope: Document
) -> Document:
    """Build the query for a list of messages.

    Args:
        clauses: the clauses of the query, at least one.
        every: whether a message needs all of the clauses, or one.
        without: the clauses that it must not have.
        scope: the query for the messages to search.
    """
    wanted = [{"$and": list(map(_term_query, clause.terms))} for clause in clauses]
    query: Document = {**scope, "$and": wanted if every else [{"$or": wanted}]}
    if without:
        query["$nor"] = list(map(_term_query, without))
    return query


def _term_query(term: Term) -> Document:
    if not term.is_prefix:
        return {"search_terms": {"$in": list(term.forms)}}
    # A range of the index; one element has to be in it.
    ranges = [{"$gte": form, "$lt": form + _LAST_CHARACTER} for form in term.forms]
    return {"$or": [{"search_terms": {"$elemMatch": bounds}} for bounds in ranges]}
