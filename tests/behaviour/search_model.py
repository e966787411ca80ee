"""A message store that searches by reading every message, and random calls to compare it with."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from jazzmine import Conversation, FoundMessage, Message, MessageRole
from jazzmine.search.analyser import Analyser
from jazzmine.search.query import Clause, parse_query
from jazzmine.search.ranking import MOST_READ, clauses_to_find, matches, ranked
from tests.behaviour.samples import message

Found = list[tuple[str, float]]

_ENGLISH = "refund refunds refunded shoe shoes order ordering ordered tuesday the the the a is late"
_OTHERS = "café cafe CAFE\u0301 naïve example.com 2.5 don't 日本語 日本 สวัสดี 😀 straße STRASSE"
_WORDS = [*_ENGLISH.split(), *_OTHERS.split()]


def random_text(draw: random.Random) -> str:
    """A text of few different words."""
    return draw.choice([" ", ", ", "\n"]).join(draw.choices(_WORDS, k=draw.randrange(12)))


def random_query(draw: random.Random) -> tuple[str, dict[str, Any]]:
    """A query, and the arguments of a scope."""
    parts = []
    for _ in range(draw.randrange(1, 4)):
        word = draw.choice(_WORDS)
        phrase = f'"{draw.choice(_WORDS)} {draw.choice(_WORDS)}"'
        parts.append(draw.choice([word, word, word, f"{word[:3]}*", phrase, f"-{word}"]))
        if draw.random() < 0.1:
            parts.append(draw.choice(["u*", "-c*", "-r*", "v*"]))
    scope: dict[str, Any] = {}
    if draw.random() < 0.3:
        scope["user_id"] = draw.choice(["u1", "u2"])
    if draw.random() < 0.2:
        scope["conversation_id"] = draw.choice(["c1", "c2", "c3"])
    if draw.random() < 0.1:
        scope["agent_id"] = "a1"
    if draw.random() < 0.3:
        scope["viewer"] = draw.choice(["u1", "u2"])
    if draw.random() < 0.2:
        scope["roles"] = [MessageRole.USER]
    if draw.random() < 0.2:
        scope["since"], scope["until"] = 2, 7
    return " ".join(parts), scope


def found(messages: Sequence[FoundMessage]) -> Found:
    """What a search has found, as the model says it."""
    return [(one.message.id, one.score) for one in messages]


def check_beyond_most_read(store: Any) -> None:
    """Compare searches of 4,300 messages, of which many have the words, with the model.

    Some of them are stored long before, or long after, those of about the same time.

    Args:
        store: a sync store with an index for no language, and the conversation "c1".
    """
    model = SearchModel("")
    model.conversations["c1"] = store.get_conversation_by_id("c1")
    for number in range(4_300):
        has_tea, has_milk = number % 50 in range(3, 50, 2), number % 3 == 0
        text = "tea " * has_tea + "milk " * has_milk + "word" if number else "tea tea"
        new = message(f"m{number}", original_content=text, timestamp=_late(number) * 60_000)
        model.messages[new.id] = new
    store.store_messages(list(model.messages.values()))

    for query, count in (("tea", 2_000), ("tea milk", 1_433), ("milk -tea", 745)):
        best = model.best(query)
        assert found(store.search_messages(query, limit=4_000)) == best
        assert len(best) == count
        newest = store.search_messages(query, order="newest", limit=20)
        assert found(newest) == model.newest(query)[:20]
    assert "m0" not in dict(model.best("tea"))


def _late(number: int) -> int:
    """The minute of a message: the order of some is not that in which they are stored."""
    if not number or number % 37:
        return number
    return number + (4_300 if number < 1_000 else 2_500 if number < 2_000 else -1_500)


class SearchModel:
    """Messages in the order in which their ids were first stored."""

    def __init__(self, language: str = "english") -> None:
        self.conversations: dict[str, Conversation] = {}
        self.messages: dict[str, Message] = {}
        self._analyser = Analyser(language)

    def best(self, query: str, **scope: Any) -> Found:
        """The messages by relevance, with their scores."""
        wanted, seen = parse_query(query, self._analyser), list(self._seen(**scope))
        forms = [self._entry(message).split() for message in seen]
        counts = (
            len(seen),
            [sum(_may_be_in(clause, each) for each in forms) for clause in wanted.clauses],
        )
        needed = clauses_to_find(wanted.clauses, counts)

        def has(clauses: Sequence[Clause], entry: Sequence[str]) -> bool:
            return any(_may_be_in(clause, entry) for clause in clauses)

        single = [clause for clause in wanted.excluded if len(clause.terms) == 1]
        read = [
            message
            for message, entry in zip(seen, forms, strict=True)
            if has(needed, entry) and not has(single, entry)
        ]
        read = read[:MOST_READ]
        ranking = ranked([self._entry(message) for message in read], wanted, counts, needed)
        return [(read[place].id, score) for place, score in ranking]

    def newest(self, query: str, **scope: Any) -> Found:
        """The messages that have all of a query, newest first."""
        wanted = parse_query(query, self._analyser)
        if not wanted.clauses:
            return []
        return [
            (message.id, 0.0)
            for message in self._seen(**scope)
            if matches(self._entry(message), wanted)
        ]

    def within(self, user_id: str | None, results: Found) -> Found:
        """Those in a user's conversations; None is anybody's."""
        owners = {
            one.id: self.conversations[one.conversation_id].user_id
            for one in self.messages.values()
        }
        return [one for one in results if user_id in (None, owners[one[0]])]

    def _entry(self, message: Message) -> str:
        return self._analyser.entry(message.original_content)

    def _seen(
        self,
        user_id: str | None = None,
        conversation_id: str | None = None,
        agent_id: str | None = None,
        roles: Sequence[MessageRole] = (),
        since: int | None = None,
        until: int | None = None,
    ) -> Iterator[Message]:
        ordered = sorted(self.messages.values(), key=lambda one: one.timestamp)
        for one in reversed(ordered):
            owner = self.conversations[one.conversation_id]
            if (
                user_id in (None, one.user_id)
                and conversation_id in (None, one.conversation_id)
                and agent_id in (None, owner.agent_id)
                and (not roles or one.role in roles)
                and (since is None or one.timestamp >= since)
                and (until is None or one.timestamp < until)
            ):
                yield one


def _may_be_in(clause: Clause, forms: Sequence[str]) -> bool:
    """Return whether an index has all of the terms of a clause for an entry with these words."""
    return all(any(map(term.is_in, forms)) for term in clause.terms)
