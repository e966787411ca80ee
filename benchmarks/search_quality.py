"""How many of 500 facts does a search find, beside rank_bm25 and PostgreSQL's ts_rank?

Generated conversations of 10 users: each has 1,000 messages, among them 50 facts (who moved where,
what was broken, who is allergic to what, ...), and others of the same forms with other names. For
each fact there is one question in other words and other forms of words ("moved", "moving"). A fact
is found if its message is among the first 1, 5, 10 or 20 messages that are returned for its
question within its user. This measures retrieval; it says nothing of the answers that a model
gives. The seed is fixed.

All rank the same texts: rank_bm25 (BM25Okapi) splits them at what is no letter or digit, PostgreSQL
has its configuration "english", and any of the words counts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.results import Pairs, Row
from benchmarks.frame.scenario import Figures, Scenario
from jazzmine.sync.message_store import Conversation, Message, MessageRole, MessageStore

USERS, MESSAGES, FACTS = 10, 1_000, 50
DEPTHS = (1, 5, 10, 20)
SEED = 11

_LISTS = {
    "name": "Anna Bruno Carla Diego Elena Farid Greta Hugo Ines Jonas Kofi Lena Marta Nadia Oskar",
    "relation": "sister brother cousin neighbour colleague teacher uncle aunt friend dentist",
    "city": "Lisbon Vienna Porto Ghent Turin Oslo Dublin Riga Malaga Zurich Leeds Bergen",
    "job": "nurse baker plumber architect librarian pilot gardener translator carpenter chemist",
    "month": "January February March April May June July August September October November",
    "thing": "kettle bicycle lamp keyboard suitcase tent printer blender camera drill sofa",
    "part": "handle wheel switch cable zip hinge lid screen pedal button leg strap",
    "shop": "Hansen Miller Rossi Novak Dubois Kowalski Lindqvist Okafor Tanaka Marino",
    "food": "peanuts shellfish gluten strawberries sesame mustard celery lupins soya almonds",
    "dish": "curry risotto pancakes salad stew noodles lasagne soup couscous dumplings",
    "pet": "cat dog rabbit parrot hamster pony",
    "project": "budget website warehouse brochure survey audit roadmap translation training",
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday",
}
LISTS = {name: words.split() for name, words in _LISTS.items()}

# A fact and its question. A question has two of the names of its fact.
FORMS = (
    (
        "My {relation} {name} moved to {city} in {month} and is working there as a {job}.",
        "to which place is {name} moving, my {relation}?",
    ),
    (
        "The {thing} that I ordered from {shop} arrived yesterday, but its {part} is broken.",
        "what broke on the {thing} when the order of {shop} was arriving?",
    ),
    (
        "Please note that {name} is allergic to {food}, so no {dish} when we are all eating here.",
        "which allergies has {name}, and may we eat {dish}?",
    ),
    (
        "We took {name}'s {pet} to the vet in {month}, and she vaccinated it against rabies.",
        "when did {name} get the vaccination of the {pet}?",
    ),
    (
        "I paid {amount} euros for the {thing} at {shop}, and I keep the receipt in the kitchen.",
        "how many euros was I paying {shop} for that {thing}?",
    ),
    (
        "The meeting with {name} about the {project} is postponed to {day} because of the strike.",
        "what did they postpone the {project} meetings with {name} to?",
    ),
)

_CHAT = (
    "Could you check that again for me, please, and tell me what you have found by then?",
    "Thank you, that is all that I wanted to know about it for now.",
    "I have looked at it, and I think that we should wait until {day} before we decide.",
    "{name} asked me about the {project} again, and I did not know what to answer.",
    "Is there anything else that I should buy for the {dish} that we are having on {day}?",
    "What is the weather like in {city} in {month}, and do I need a coat there?",
    "The {shop} catalogue has a new {thing}, but I do not need another one this year.",
    "Sorry, I meant the other {thing}, not the one with the {part} on its side.",
    "My {relation} is visiting us in {month}, so remind me to clean the guest room.",
)


class Fact(NamedTuple):
    """A question, and the message that answers it."""

    user_id: str
    question: str
    message_id: str


def generated() -> tuple[list[Message], list[Fact]]:
    """The messages of all users, and the facts; the same on every run."""
    chance = random.Random(SEED)
    stored: list[Message] = []
    facts: list[Fact] = []
    for user in range(USERS):
        planted = set(chance.sample(range(MESSAGES), FACTS))
        asked: set[str] = set()
        for number in range(MESSAGES):
            message_id, user_id = f"m-{user}-{number}", f"user-{user}"
            form, question = chance.choice(FORMS), ""
            while not question:
                slots = {name: chance.choice(words) for name, words in LISTS.items()}
                slots["amount"] = str(chance.randint(10, 900))
                text, question = (part.format(**slots) for part in form)
                question = "" if question in asked else question
            # Of the others, one in four has the form of a fact.
            if number in planted or not number % 4:
                asked.add(question)
            else:
                text = chance.choice(_CHAT).format(**slots)
            if number in planted:
                facts.append(Fact(user_id, question, message_id))
            stored.append(
                Message(
                    id=message_id,
                    conversation_id=f"conversation-{user}",
                    user_id=user_id,
                    role=MessageRole.USER,
                    original_content=text,
                    timestamp=1_700_000_000_000 + number * 700,
                )
            )
    return stored, facts


Find = Callable[[str, str], list[str]]
"""Returns the ids of the first messages for a user and a question."""


class Quality(Scenario):
    """The share of the facts that each of them finds, in per cent."""

    def __init__(self, folder: Path, dsn: str) -> None:
        super().__init__(folder)
        self._dsn = dsn

    def prepare(self) -> None:
        self._messages, self._facts = generated()

    def measure(self) -> Figures:
        finders: dict[str, Find] = {
            "search": self._ours(True),
            'search "english"': self._ours("english"),
            "rank_bm25": self._rank_bm25(),
            "ts_rank": self._ts_rank(),
        }
        figures: Figures = {}
        for name, find in finders.items():
            places = [find(fact.user_id, fact.question) for fact in self._facts]
            for depth in DEPTHS:
                found = sum(
                    fact.message_id in ids[:depth]
                    for fact, ids in zip(self._facts, places, strict=True)
                )
                figures[f"{name} at {depth}"] = 100 * found / len(self._facts)
        return figures

    def _ours(self, search: bool | str) -> Find:
        store = MessageStore.initialize({"storage": "memory", "search": search})
        for user in range(USERS):
            owner = Conversation(
                id=f"conversation-{user}", user_id=f"user-{user}", agent_id="agent"
            )
            store.store_conversation(owner)
        store.store_messages(self._messages)

        def find(user_id: str, question: str) -> list[str]:
            found = store.search_messages(question, user_id=user_id, limit=max(DEPTHS))
            return [one.message.id for one in found]

        return find

    def _rank_bm25(self) -> Find:
        from rank_bm25 import BM25Okapi

        def words(text: str) -> list[str]:
            return re.findall(r"\w+", text.lower())

        of_user: dict[str, list[Message]] = {}
        for message in self._messages:
            of_user.setdefault(message.user_id, []).append(message)
        ranked = {
            user: BM25Okapi([words(one.original_content) for one in some])
            for user, some in of_user.items()
        }

        def find(user_id: str, question: str) -> list[str]:
            some = of_user[user_id]
            ids = [message.id for message in some]
            best: list[str] = ranked[user_id].get_top_n(words(question), ids, n=max(DEPTHS))
            return best

        return find

    def _ts_rank(self) -> Find:
        import psycopg

        connection = psycopg.connect(self._dsn, autocommit=True)
        connection.execute("CREATE TABLE texts (id text, user_id text, words tsvector, at bigint)")
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO texts VALUES (%s, %s, to_tsvector('english', %s), %s)",
                [(m.id, m.user_id, m.original_content, m.timestamp) for m in self._messages],
            )

        def find(user_id: str, question: str) -> list[str]:
            # plainto_tsquery asks for all words; as in the others, any of them counts here.
            rows = connection.execute(
                """
                SELECT id FROM texts, CAST(replace(
                    plainto_tsquery('english', %s)::text, ' & ', ' | ') AS tsquery) AS query
                WHERE user_id = %s AND words @@ query
                ORDER BY ts_rank(words, query) DESC, at DESC LIMIT %s
                """,
                (question, user_id, max(DEPTHS)),
            )
            return [str(row[0]) for row in rows]

        return find


def answer(lab: Lab) -> Iterator[Row]:
    if lab.self_check:
        return
    from tests.servers.postgres import Server

    with (
        Server("18", fsync=False) as server,
        lab.worker(Side(Quality, {"dsn": server.dsn})) as worker,
    ):
        found: Figures = worker.call("measure")
    for ours in ("search", 'search "english"'):
        for beside in ("rank_bm25", "ts_rank"):
            for depth in DEPTHS:
                pairs = Pairs([found[f"{ours} at {depth}"]], [found[f"{beside} at {depth}"]])
                label = f"{ours}: facts among the first {depth}, in %"
                yield Row(label, pairs, beside=beside, unit="", as_speed=False)
