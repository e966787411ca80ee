"""How long does a search take among 1,000,000 messages, and what does it add to a write?

The texts have 8 to 32 words each, of a vocabulary of 50,000 with the frequencies of Zipf's law.
There are 100 users with 10,000 messages each, in conversations of 200. A rare word is in about 90
messages of all users together, a common one in 4 to 8 %; a phrase is two words that follow each
other in some message, a prefix the first two syllables of some words.
`SEARCH_MESSAGES=100000` asks it of fewer messages, `SEARCH_BACKENDS=SQLite` of one back end.

The tables are filled by bulk statements, so that a million messages take about two minutes, and
their indexes as long. How long `jazzmine index` takes is measured with 20,000
messages.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sqlite3
import statistics
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.results import Bar, Pairs, Row, at_most, within
from benchmarks.frame.scenario import Figures, Scenario
from jazzmine.core.message_store import Conversation, Message, MessageRole, MessageStore

STORED = int(os.environ.get("SEARCH_MESSAGES", "1000000"))
FEW = 20_000
USERS, IN_A_CONVERSATION = 100, 200
VOCABULARY = 50_000
START = 1_700_000_000_000
QUERIES = 40
ROUNDS = 3
CALLS = 200
AGENT = "agent"

SCHEMA = "jazzmine_bench_search"
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


async def fill(config: dict[str, object], count: int) -> None:
    """Store the messages."""
    async with await MessageStore.initialize(config) as store:
        for talk in talks(count):
            await store.store_conversation(talk)
    if config["storage"] == "sqlite":
        _fill_sqlite(Path(str(config["path"])), count)
    else:
        _fill_postgres(str(config["dsn"]), count)


async def index(config: dict[str, object], in_bulk: bool = False) -> float:
    """Make the search index; return how long it took, in s."""
    async with await MessageStore.initialize(config) as store:
        started = perf_counter()
        await store.backend.make_search("")
        if in_bulk and config["storage"] == "postgres":
            _index_postgres(str(config["dsn"]))
        while await store.backend.fill_search(5_000) != (0, 0):
            pass
        return perf_counter() - started


def _index_postgres(dsn: str) -> None:
    import psycopg

    # The texts are their own entries: words in lower case with a space between them.
    for statement in (
        f"DROP INDEX {SCHEMA}.idx_words_terms",
        f"ALTER TABLE {SCHEMA}.messages DISABLE TRIGGER jazzmine_index_update",
        f"UPDATE {SCHEMA}.messages SET entry = ':' || original_content",
        f"ALTER TABLE {SCHEMA}.messages ENABLE TRIGGER jazzmine_index_update",
        f"INSERT INTO {SCHEMA}.message_words"
        " (message_id, conversation_id, timestamp, seq, is_pending, terms)"
        " SELECT stored.id, conversation_id, timestamp, stored.seq, false,"
        f" {SCHEMA}.jazzmine_terms(original_content, user_id, conversation_id, role)"
        f" FROM {SCHEMA}.messages AS stored",
        "SET maintenance_work_mem = '256MB'",
        f"CREATE INDEX idx_words_terms ON {SCHEMA}.message_words USING gin (terms)"
        " WITH (gin_pending_list_limit = 1024)",
        f"VACUUM ANALYZE {SCHEMA}.message_words",
    ):
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(statement.encode())


def _fill_sqlite(path: Path, count: int) -> None:
    def rows() -> Iterator[tuple[object, ...]]:
        for number, text in enumerate(texts(count)):
            user, owner = place(number)
            at = START + number * 700
            body = {"id": f"m{number}", "conversation_id": owner, "user_id": user}
            body |= {"role": "user", "original_content": text}
            yield number + 1, f"m{number}", owner, user, at, json.dumps(body | {"timestamp": at})

    database = sqlite3.connect(path)
    with database:
        database.executemany(
            "INSERT INTO stored_messages"
            " (seq, id, conversation_id, user_id, timestamp, is_flagged, is_call, body)"
            " VALUES (?, ?, ?, ?, ?, 0, 0, ?)",
            rows(),
        )
    database.close()


def _fill_postgres(dsn: str, count: int) -> None:
    import psycopg

    copy = "(id, conversation_id, user_id, role, original_content, timestamp) FROM STDIN"
    with psycopg.connect(dsn, autocommit=True) as connection:
        with connection.cursor().copy(f"COPY {SCHEMA}.messages {copy}".encode()) as rows:
            for number, text in enumerate(texts(count)):
                user, owner = place(number)
                rows.write_row((f"m{number}", owner, user, "user", text, START + number * 700))
        # As autovacuum leaves it: without, each row of an index is looked up in the table.
        connection.execute(f"VACUUM ANALYZE {SCHEMA}.messages".encode())


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


SCOPES = ("a user", "a scoped store", "a conversation", "all")


class Searches(Scenario):
    """Searches of each kind within each scope.

    The median, the 95th percentile, and the mean CPU time of this process: in SQLite, that is all.
    """

    def __init__(self, folder: Path, config: dict[str, object], stored: int) -> None:
        super().__init__(folder)
        self._config = config
        self._stored = stored

    async def prepare(self) -> None:
        self.store = await MessageStore.initialize(self._config)
        self._queries = queries(self._stored)

    async def measure(self) -> Figures:
        figures: Figures = {}
        for scope in SCOPES:
            for kind, asked in self._queries.items():
                times, cpu = [], process_time()
                for number, query in enumerate(asked):
                    user, owner = place(number * 7_919 % self._stored)
                    limits: dict[str, dict[str, Any]] = {
                        "a user": {"user_id": user},
                        "a scoped store": {},
                        "a conversation": {"conversation_id": owner},
                        "all": {},
                    }
                    store = self.store
                    if scope == "a scoped store":
                        store = store.scoped(user_id=user)
                    started = perf_counter()
                    await store.search_messages(query, **limits[scope])
                    times.append(perf_counter() - started)
                figures[f"{kind} in {scope}, median"] = statistics.median(times)
                figures[f"{kind} in {scope}, 95th percentile"] = sorted(times)[-QUERIES // 20]
                figures[f"{kind} in {scope}, CPU time"] = (process_time() - cpu) / QUERIES
        return figures

    async def finish(self) -> None:
        await self.store.close()


class Writes(Scenario):
    """`store_message` of a new message in a store with `FEW` of them."""

    def __init__(self, folder: Path, config: dict[str, object]) -> None:
        super().__init__(folder)
        self._config = {**config}
        if config["storage"] == "sqlite":
            self._config["path"] = str(folder / "messages.db")
        self._next = 0

    async def prepare(self) -> None:
        self.store = await MessageStore.initialize(self._config)
        for talk in talks(FEW):
            await self.store.store_conversation(talk)
        stored = self._new(FEW)
        for start in range(0, len(stored), 5_000):
            await self.store.store_messages(stored[start : start + 5_000])
        for message in self._new(400):
            await self.store.store_message(message)

    def _new(self, count: int) -> list[Message]:
        first, self._next = self._next, self._next + count
        return [
            Message(
                id=f"m{number}",
                conversation_id=place(number % FEW)[1],
                user_id=place(number)[0],
                role=MessageRole.USER,
                original_content=text,
                timestamp=START + number * 700,
            )
            for number, text in enumerate(texts(count, seed=first), first)
        ]

    async def measure(self) -> Figures:
        times, messages, cpu = [], self._new(CALLS), process_time()
        for message in messages:
            started = perf_counter()
            await self.store.store_message(message)
            times.append(perf_counter() - started)
        return {"seconds": statistics.median(times), "cpu": (process_time() - cpu) / CALLS}

    async def finish(self) -> None:
        await self.store.close()


_BARS = {
    "a user": (0.005, 0.020),
    "a scoped store": (0.005, 0.020),
    "a conversation": (0.003, 0.010),
    "all": (0.050, 0.200),
}


def answer(lab: Lab) -> Iterator[Row]:
    from tests.servers.postgres import Server

    with Server("18", fsync=True) as server:
        postgres: dict[str, object] = {"storage": "postgres", "dsn": server.dsn}
        asked = os.environ.get("SEARCH_BACKENDS", "PostgreSQL SQLite").split()
        for name in asked:
            few: dict[str, object] = {**postgres, "schema": SCHEMA}
            many = few
            if name == "SQLite":
                few = {"storage": "sqlite", "path": str(lab.folder() / "messages.db")}
                many = {**few, "path": str(lab.folder() / "messages.db")}
            yield from _writes(lab, name, few)
            yield from _indexing(name, few)
            if name == "PostgreSQL":
                _drop(server.dsn)
            yield from _searches(lab, name, many)


def _drop(dsn: str) -> None:
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE".encode())


def _writes(lab: Lab, name: str, config: dict[str, object]) -> Iterator[Row]:
    plain, searched = {**config}, {**config, "search": True}
    if name == "PostgreSQL":
        plain["schema"], searched["schema"] = "jazzmine_bench_plain", "jazzmine_bench_searched"
    ours, other = Side(Writes, {"config": searched}), Side(Writes, {"config": plain})
    found = lab.race(ours, other, rounds=9)
    beside = "without search"
    yield Row(f"{name}: store_message", found["seconds"], within(1.5), beside=beside)
    yield Row(f"{name}: store_message, CPU time of the client", found["cpu"], beside=beside)


def _index_bytes(config: dict[str, object]) -> float:
    """Return what the index takes."""
    if config["storage"] == "sqlite":
        with sqlite3.connect(str(config["path"])) as database:
            query = "SELECT sum(pgsize) FROM dbstat WHERE name LIKE '%search%'"
            return float(database.execute(query).fetchone()[0])
    import psycopg

    with psycopg.connect(str(config["dsn"])) as connection:
        query = f"SELECT pg_total_relation_size('{SCHEMA}.message_words')"
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return float(row[0])


def _searches(lab: Lab, name: str, config: dict[str, object]) -> Iterator[Row]:
    asyncio.run(fill(config, STORED))
    asyncio.run(index(config, in_bulk=True))
    yield Row(f"{name}: bytes a message", Pairs([_index_bytes(config) / STORED], []), unit="")
    with lab.worker(Side(Searches, {"config": config, "stored": STORED})) as worker:
        found = [worker.call("measure") for _ in range(ROUNDS + 1)][1:]
    for label in found[0]:
        scope = next(scope for scope in SCOPES if f" in {scope}," in label)
        bar: Bar | None = None
        if not label.endswith("CPU time"):
            bar = at_most(_BARS[scope]["percentile" in label])
        yield Row(f"{name}: {label}", Pairs([one[label] for one in found], []), bar)


def _indexing(name: str, config: dict[str, object]) -> Iterator[Row]:
    asyncio.run(fill(config, FEW))
    seconds = asyncio.run(index(config))
    yield Row(f"{name}: indexing {FEW:,} messages that are stored", Pairs([seconds], []))
