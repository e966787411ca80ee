"""What does a session of an agent framework cost in a message store, beside the framework's own?

Each side adds to one session, and reads the newest 20 of the 200 items of another.
SQLite and PostgreSQL flush each commit of both sides. SQLAlchemySession uses asyncpg and psycopg.
Strands and Agent Framework have no SQL store; their files, which are never flushed and keep no
order between processes, are beside the SQLite store for comparison. Pydantic AI and the Claude
Agent SDK have only a dict in memory.
"""

from __future__ import annotations

import inspect
import itertools
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.postgres import database
from benchmarks.frame.results import Bar, Row, at_least_as_fast
from benchmarks.frame.scenario import Figures, Scenario

CALLS = 30
STORED = 200
NEWEST = 20

Call: TypeAlias = Callable[[int], Any]
"""Adds a number of items, or reads as many; returns what may have to be awaited."""

Make: TypeAlias = Callable[[str], tuple[Call, Call]]
"""Makes the session of a name, and returns how to add to it and to read it."""

TEXT = "Where is my order? It has not arrived yet, and the tracking number shows nothing. " * 4


def said(number: int) -> Any:
    return {"role": "assistant" if number % 2 else "user", "content": f"{number} {TEXT}"}


class Session(Scenario):
    """Two sessions, one to add to and one to read, made by the method that its kind names."""

    def __init__(self, folder: Path, kind: str, url: str = "") -> None:
        super().__init__(folder)
        self._kind, self._url = kind, url
        self._finish: Callable[[], Any] = lambda: None

    async def prepare(self) -> None:
        make = await _settled(getattr(self, f"_{self._kind}")())
        (self._add, _), (fill, self._read) = make("s1"), make("s2")
        for add in (self._add, fill):
            for _ in range(STORED // 2):
                await _settled(add(2))

    async def measure(self) -> Figures:
        calls = {"one": (self._add, 1), "two": (self._add, 2), "newest": (self._read, NEWEST)}
        return {name: await self._median(*call) for name, call in calls.items()}

    async def finish(self) -> None:
        await _settled(self._finish())

    async def _median(self, call: Call, count: int) -> float:
        times = []
        for _ in range(CALLS):
            started = perf_counter()
            found = await _settled(call(count))
            times.append(perf_counter() - started)
            assert found is None or len(found) == count
        return statistics.median(times)

    async def _openai_ours(self) -> Make:
        from jazzmine.adapters.openai_agents import JazzmineSession
        from jazzmine.core import MessageStore

        store = await MessageStore.initialize(self._url or f"sqlite:{self.folder / 'ours.db'}")
        self._finish = store.close
        return lambda name: _openai(JazzmineSession(store, name, user_id="u1", agent_id="a1"))

    def _openai_sqlite(self) -> Make:
        from agents import SQLiteSession

        return lambda name: _openai(SQLiteSession(name, self.folder / "theirs.db"))

    def _openai_sqlalchemy(self) -> Make:
        from agents.extensions.memory import SQLAlchemySession
        from sqlalchemy.ext.asyncio import create_async_engine

        engine = create_async_engine(
            self._url or f"sqlite+aiosqlite:///{self.folder / 'theirs.db'}"
        )
        self._finish = engine.dispose
        return lambda name: _openai(SQLAlchemySession(name, engine=engine, create_tables=True))

    def _strands_ours(self) -> Make:
        from jazzmine.adapters.strands import JazzmineSessionRepository
        from jazzmine.sync import MessageStore

        store = MessageStore.initialize(f"sqlite:{self.folder / 'ours.db'}")
        self._finish = store.close
        repository = JazzmineSessionRepository(store, user_id="u1", agent_id="a1")
        return lambda name: _strands(name, repository)

    def _strands_file(self) -> Make:
        from strands.session.file_session_manager import FileSessionManager

        return lambda name: _strands(name, FileSessionManager(name, storage_dir=str(self.folder)))

    async def _agent_framework_ours(self) -> Make:
        from jazzmine.adapters.agent_framework import JazzmineHistoryProvider
        from jazzmine.core import MessageStore

        store = await MessageStore.initialize(f"sqlite:{self.folder / 'ours.db'}")
        self._finish = store.close
        provider = JazzmineHistoryProvider(store, user_id="u1", agent_id="a1")
        return lambda name: _agent_framework(name, provider)

    def _agent_framework_file(self) -> Make:
        from agent_framework import FileHistoryProvider

        provider = FileHistoryProvider(self.folder)
        return lambda name: _agent_framework(name, provider)


async def _settled(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


def _openai(session: Any) -> tuple[Call, Call]:
    numbers = itertools.count()

    def add(count: int) -> Any:
        return session.add_items([said(next(numbers)) for _ in range(count)])

    return add, session.get_items


def _strands(name: str, repository: Any) -> tuple[Call, Call]:
    from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

    if repository.read_session(name) is None:
        repository.create_session(Session(name, SessionType.AGENT))
    repository.create_agent(name, SessionAgent("guide", {}, {}))
    numbers = itertools.count()

    def add(count: int) -> None:
        for number in itertools.islice(numbers, count):
            item = said(number)
            message: Any = {"role": item["role"], "content": [{"text": item["content"]}]}
            stored = SessionMessage.from_message(message, number)
            repository.create_message(name, "guide", stored)

    return add, lambda count: repository.list_messages(name, "guide", offset=STORED - count)


def _agent_framework(name: str, provider: Any) -> tuple[Call, Call]:
    from agent_framework import Message

    numbers = itertools.count()

    def add(count: int) -> Any:
        items = [said(next(numbers)) for _ in range(count)]
        messages = [Message(item["role"], [item["content"]]) for item in items]
        return provider.save_messages(name, messages)

    async def read(count: int) -> Any:
        return (await provider.get_messages(name))[-count:]

    return add, read


def answer(lab: Lab) -> Iterator[Row]:
    if lab.self_check:
        return
    sqlite = (None, at_least_as_fast(2))
    postgres = (at_least_as_fast(2), at_least_as_fast(2))
    beside = "SQLAlchemySession"
    yield from _rows(lab, "SQLite", "openai", "sqlite", "SQLiteSession", sqlite)
    yield from _rows(lab, "SQLite", "openai", "sqlalchemy", f"{beside}, aiosqlite", sqlite)
    with database(fsync=True) as dsn:
        for driver in ("asyncpg", "psycopg"):
            address = dsn.replace("postgresql://", f"postgresql+{driver}://")
            names = "PostgreSQL", "openai", "sqlalchemy", f"{beside}, {driver}"
            yield from _rows(lab, *names, postgres, dsn, address)
    none = (None, None)
    yield from _rows(lab, "Strands", "strands", "file", "FileSessionManager", none)
    yield from _rows(lab, "Agent Framework", "agent_framework", "file", "FileHistoryProvider", none)


def _rows(
    lab: Lab,
    name: str,
    framework: str,
    other: str,
    beside: str,
    bars: tuple[Bar | None, Bar | None],
    url: str = "",
    their_url: str = "",
) -> Iterator[Row]:
    ours = Side(Session, {"kind": f"{framework}_ours", "url": url})
    theirs = Side(Session, {"kind": f"{framework}_{other}", "url": their_url})
    found = lab.race(ours, theirs, rounds=9)
    adding, reading = bars
    for measured, label, bar in (
        ("one", "add one", adding),
        ("two", "add two", adding),
        ("newest", f"newest {NEWEST} of {STORED}", reading),
    ):
        yield Row(f"{name}: {label}", found[measured], bar, beside=beside, as_speed=True)
