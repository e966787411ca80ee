"""How long does a search take among 1,000,000 messages, and what does it add to a write?

The texts have 8 to 32 words each, of a vocabulary of 50,000 with the frequencies of Zipf's law.
There are 100 users with 10,000 messages each, in conversations of 200. A rare word is in about 90
messages of all users together, a common one in 4 to 8 %; a phrase is two words that follow each
other in some message, a prefix the first two syllables of some words.
`SEARCH_MESSAGES=100000` asks it of fewer messages, `SEARCH_BACKENDS=SQLite` of one back end.

How long `jazzmine index` takes is measured with 20,000 messages.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sqlite3
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any

import psycopg

from benchmarks.frame.lab import Lab, median_time, race
from benchmarks.frame.results import Pairs, Row
from jazzmine.core.message_store import Conversation, Message, MessageRole, MessageStore
from jazzmine.sync.message_store import MessageStore as SyncMessageStore
from tests.servers.postgres import Server

STORED = int(os.environ.get("SEARCH_MESSAGES", "1000000"))
FEW = 20_000
USERS, IN_A_CONVERSATION = 100, 200
VOCABULARY = 50_000
START = 1_700_000_000_000
QUERIES = 40
ROUNDS = 3
CALLS = 200
AGENT = "agent"

SYLLABLES = [a + b for a in "bcdfghjklmnprstvwz" for b in "aeiou"]


def word(rank: int) -> str:
    """The word with a rank, from 0, the most common one, on: three or four syllables."""
    number, syllables = rank * 7_919 % len(SYLLABLES) ** 3, []
    for _ in range(3):
        number, place = divmod(number, len(SYLLABLES))
        syllables.append(SYLLABLES[place])
    return "".join(syllables)


WORDS = [word(rank) for rank in range(VOCABULARY)]


def texts(count: int, seed: int = 7) -> Iterator[str]:
    """Texts, the same on every run."""
    chance = random.Random(seed)
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(VOCABULARY)))
    for _ in range(count):
        yield " ".join(chance.choices(WORDS, cum_weights=weights, k=chance.randint(8, 32)))


def place(number: int) -> tuple[str, str]:
    """The user and the conversation of a message."""
    user, turn = number % USERS, number // USERS
    return f"user-{user}", f"conversation-{user}-{turn // IN_A_CONVERSATION}"


def talks(count: int) -> list[Conversation]:
    """The conversations of so many messages."""
    found = dict.fromkeys(map(place, range(count)))
    return [
        Conversation(id=owner, user_id=user, agent_id=AGENT, created_at=START)
        for user, owner in found
    ]


def new_messages(first: int, count: int) -> Iterator[Message]:
    """Messages with numbers from `first` on."""
    for number, text in enumerate(texts(count, seed=first or 7), first):
        user, owner = place(number)
        yield Message(
            id=f"m{number}",
            conversation_id=owner,
            user_id=user,
            role=MessageRole.USER,
            original_content=text,
            timestamp=START + number * 700,
        )


async def fill(config: dict[str, object], count: int) -> None:
    """Store the messages."""
    async with await MessageStore.initialize(config) as store:
        for talk in talks(count):
            await store.store_conversation(talk)
        several = new_messages(0, count)
        while given := list(itertools.islice(several, 5_000)):
            await store.store_messages(given)


async def index(config: dict[str, object]) -> float:
    """Make the search index; return how long it took, in s."""
    async with await MessageStore.initialize(config) as store:
        started = perf_counter()
        await store.backend.make_search("")
        while await store.backend.fill_search(5_000) is not None:
            pass
        seconds = perf_counter() - started
    if config["storage"] == "postgres":
        # As autovacuum leaves it: without, each row of an index is looked up in the table.
        with psycopg.connect(str(config["dsn"]), autocommit=True) as connection:
            for table in ("messages", "message_words"):
                connection.execute(f"VACUUM ANALYZE {config['schema']}.{table}".encode())
    return seconds


def queries(count: int) -> dict[str, list[str]]:
    """Queries of each kind."""
    chance = random.Random(3)
    some = [text.split() for text in itertools.islice(texts(count), 20_000)]
    phrases, prefixes = [], []
    for _ in range(QUERIES):
        tokens = chance.choice(some)
        at = chance.randrange(len(tokens) - 1)
        phrases.append(f'"{tokens[at]} {tokens[at + 1]}"')
        prefixes.append(f"{chance.choice(WORDS[500:5_000])[:4]}*")
    return {
        "a rare word": chance.sample(WORDS[15_000:25_000], QUERIES),
        "a common word": chance.choices(WORDS[20:40], k=QUERIES),
        "three words": [" ".join(chance.sample(WORDS[50:5_000], 3)) for _ in range(QUERIES)],
        "a phrase": phrases,
        "a prefix": prefixes,
    }


SCOPES = ("a user", "a conversation", "all")


async def search_times(config: dict[str, object]) -> dict[str, float]:
    """The median of each kind of search in each scope."""
    figures = {}
    async with await MessageStore.initialize(config) as store:
        for (kind, asked), scope in itertools.product(queries(STORED).items(), SCOPES):
            times = []
            for number, query in enumerate(asked):
                user, owner = place(number * 7_919 % STORED)
                limits: dict[str, dict[str, Any]] = {
                    "a user": {"user_id": user},
                    "a conversation": {"conversation_id": owner},
                }
                started = perf_counter()
                await store.search_messages(query, **limits.get(scope, {}))
                times.append(perf_counter() - started)
            figures[f"{kind} in {scope}"] = statistics.median(times)
    return figures


@contextmanager
def writes(config: dict[str, object]) -> Iterator[Callable[[], float]]:
    """Time `store_message` of new messages in a store with `FEW` of them, by a call."""
    asyncio.run(fill(config, FEW))
    with SyncMessageStore.initialize(config) as store:
        numbers = itertools.count(FEW, CALLS)
        yield lambda: median_time(
            partial(store.store_message, new) for new in new_messages(next(numbers), CALLS)
        )


def answer(lab: Lab) -> Iterator[Row]:
    with Server("18", fsync=True) as server:
        for name in os.environ.get("SEARCH_BACKENDS", "PostgreSQL SQLite").split():

            def config(schema: str, name: str = name) -> dict[str, object]:
                if name == "SQLite":
                    return {"storage": "sqlite", "path": str(lab.folder() / "messages.db")}
                return {"storage": "postgres", "dsn": server.dsn, "schema": f"bench_{schema}"}

            searched = {**config("searched"), "search": True}
            with writes(searched) as ours, writes(config("plain")) as other:
                pairs = race(ours, other, 9)
            yield Row(f"{name}: store_message", pairs, beside="without search")
            few, many = config("few"), config("many")
            asyncio.run(fill(few, FEW))
            seconds = asyncio.run(index(few))
            yield Row(f"{name}: indexing {FEW:,} messages that are stored", Pairs([seconds], []))
            asyncio.run(fill(many, STORED))
            asyncio.run(index(many))
            yield Row(f"{name}: bytes a message", Pairs([_bytes(many) / STORED], []), unit="")
            found = [asyncio.run(search_times(many)) for _ in range(ROUNDS + 1)][1:]
            for label in found[0]:
                yield Row(f"{name}: {label}", Pairs([one[label] for one in found], []))


def _bytes(config: dict[str, object]) -> float:
    """Return what the index takes."""
    if config["storage"] == "sqlite":
        with sqlite3.connect(str(config["path"])) as database:
            query = "SELECT sum(pgsize) FROM dbstat WHERE name LIKE '%search%'"
            return float(database.execute(query).fetchone()[0])
    with psycopg.connect(str(config["dsn"])) as connection:
        query = f"SELECT pg_total_relation_size('{config['schema']}.message_words')"
        [size] = connection.execute(query.encode()).fetchone() or (0,)
        return float(size)
