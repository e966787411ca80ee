"""What do sessions of Google's ADK cost, beside its own SQL store?

Both sides flush each commit, and use the asynchronous API: ADK's DatabaseSessionService with
asyncpg and aiosqlite.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.postgres import database
from benchmarks.frame.results import Bar, Pairs, Row, at_least_as_fast, at_most
from benchmarks.frame.scenario import Figures, Scenario

CALLS = 30
EVENTS = 200
RECENT = 20
SESSIONS = 10_000
PAGE = 100
TEXT = "Where is my order? It has not arrived yet, and the tracking number shows nothing. " * 4


async def _median(call: Callable[[], Awaitable[object]]) -> float:
    times = []
    for _ in range(CALLS):
        started = perf_counter()
        await call()
        times.append(perf_counter() - started)
    return statistics.median(times)


class Sessions(Scenario):
    """One session of ADK that events are appended to, and one that is read.

    Args:
        folder: where files may be.
        url: ours, or theirs if it has a driver in its scheme.
    """

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self._url = url.replace("FOLDER", str(folder))
        self._stack = AsyncExitStack()
        self._numbers = itertools.count()

    async def prepare(self) -> None:
        self._service = await self._opened()
        self._session = await self._service.create_session(
            app_name="a1", user_id="u1", state={"user:k": 0, "app:k": 0}
        )
        self._read = await self._service.create_session(app_name="a1", user_id="u1")
        for _ in range(EVENTS):
            await self._service.append_event(self._read, self._event({}))

    async def measure(self) -> Figures:
        from google.adk.sessions.base_session_service import GetSessionConfig

        place = {"app_name": "a1", "user_id": "u1", "session_id": self._read.id}
        recent = GetSessionConfig(num_recent_events=RECENT)
        get = self._service.get_session
        return {
            "append": await _median(lambda: self._append()),
            "state": await _median(lambda: self._append(k=next(self._numbers))),
            "shared": await _median(lambda: self._append(**{"user:k": next(self._numbers)})),
            "all": await _median(lambda: get(**place)),
            "recent": await _median(lambda: get(**place, config=recent)),
        }

    async def finish(self) -> None:
        await self._stack.aclose()

    async def _opened(self) -> Any:
        if "+" in self._url:
            from google.adk.sessions import DatabaseSessionService

            service = DatabaseSessionService(self._url)
            self._stack.push_async_callback(service.close)
            return service
        from jazzmine.adapters.google_adk import JazzmineSessionService
        from jazzmine.core.long_term_memory import LongTermMemoryStore
        from jazzmine.core.message_store import MessageStore

        enter = self._stack.enter_async_context
        store = await enter(await MessageStore.initialize(self._url))
        items = await enter(await LongTermMemoryStore.initialize(self._url))
        return JazzmineSessionService(store, items)

    def _event(self, delta: dict[str, object]) -> Any:
        from google.adk.events.event import Event
        from google.adk.events.event_actions import EventActions
        from google.genai import types

        content = types.Content(role="user", parts=[types.Part(text=TEXT)])
        return Event(author="user", content=content, actions=EventActions(state_delta=delta))

    async def _append(self, **delta: object) -> None:
        await self._service.append_event(self._session, self._event(delta))


class ListedSessions(Sessions):
    """Pages of many sessions of one user, through all of them."""

    async def prepare(self) -> None:
        self._service = await self._opened()
        for first in range(0, SESSIONS, 50):
            await asyncio.gather(
                *(
                    self._service.create_session(
                        app_name="a1", user_id="u2", session_id=str(number), state={"k": TEXT}
                    )
                    for number in range(first, first + 50)
                )
            )

    async def measure(self) -> Figures:
        times, found, after = [], 0, None
        while True:
            started = perf_counter()
            page = await self._service.list_sessions_page(
                app_name="a1", user_id="u2", limit=PAGE, after=after
            )
            times.append(perf_counter() - started)
            if not page:
                break
            found, after = found + len(page), page[-1]
        assert found == SESSIONS
        return {"slowest page": max(times)}


def answer(lab: Lab) -> Iterator[Row]:
    if lab.self_check:
        return
    yield from _sessions(
        lab, "SQLite", "sqlite:FOLDER/ours.db", "sqlite+aiosqlite:///FOLDER/theirs.db"
    )
    with database(fsync=True) as dsn:
        address = dsn.replace("postgresql://", "postgresql+asyncpg://")
        yield from _sessions(lab, "PostgreSQL", dsn, address)


def _sessions(lab: Lab, name: str, ours: str, theirs: str) -> Iterator[Row]:
    found = lab.race(Side(Sessions, {"url": ours}), Side(Sessions, {"url": theirs}), rounds=5)
    bars: dict[str, tuple[str, Bar | None]] = {
        "append": ("append event", at_least_as_fast(2)),
        "state": ("append event with state", at_least_as_fast(2)),
        "shared": ("append event with state of the user", None),
        "all": (f"get {EVENTS} events", None),
        "recent": (f"get {RECENT} of {EVENTS} events", None),
    }
    for measured, (label, bar) in bars.items():
        beside = "DatabaseSessionService"
        yield Row(f"ADK, {name}: {label}", found[measured], bar, beside=beside, as_speed=True)
    with lab.worker(Side(ListedSessions, {"url": ours})) as worker:
        pages = [worker.call("measure")["slowest page"] for _ in range(3)]
    yield Row(f"ADK, {name}: slowest page of {SESSIONS:,} sessions", Pairs(pages, []), at_most(0.1))
