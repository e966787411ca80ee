"""The base class of the adapters: what is asked of every store, and how its calls are timed.

An adapter runs in a worker process in the environment of its library (`benchmarks.rivals.worker`),
and the scenarios talk to it by JSON lines. It imports its library when it is opened, so that the
driver and mypy need none of them.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any, TypedDict

from benchmarks.rivals import clock

TEXT = "Where is my order? It has not arrived yet, and the tracking number shows nothing. " * 2
EVERYTHING = 1_000_000


class Said(TypedDict):
    """A message of the workload; `call` is the id of the tool's call that it makes or answers."""

    id: str
    role: str  # user, assistant, tool
    text: str
    call: str


def said(id: str, role: str = "user", text: str = TEXT, call: str = "") -> Said:
    return {"id": id, "role": role, "text": f"[{id}] {text}", "call": call}


def turn(id: str, text: str = TEXT) -> list[Said]:
    """A question, the call of a tool, its result, and the answer."""
    roles = (("user", ""), ("assistant", f"c-{id}"), ("tool", f"c-{id}"), ("assistant", ""))
    return [said(f"{id}.{n}", role, text, call) for n, (role, call) in enumerate(roles)]


def id_in(text: str) -> str:
    """The id of a message, which its text begins with: not every store keeps ids."""
    match = re.match(r"\[(.+?)\]", text)
    return match[1] if match else ""


class Store:
    """The store of one library; a place is the path of an SQLite file, or a DSN of PostgreSQL.

    An adapter implements `open`, `create`, `add`, `newest`, `erase` and `close`. It overrides
    `parts` or `turn` if its framework writes a turn step by step.
    """

    imports = ""
    """The statement that imports the library."""

    async def open(self, place: str) -> None:
        """Open the store, and create its tables."""
        raise NotImplementedError

    async def create(self, session: str, user: str, title: str) -> None:
        """Create a session, with its title where there are titles."""
        raise NotImplementedError

    async def add(self, session: str, user: str, messages: list[Said]) -> None:
        """Add messages in one call, or in as few as there can be."""
        raise NotImplementedError

    async def newest(self, session: str, user: str, count: int) -> list[Said]:
        """Return the newest messages, oldest first."""
        raise NotImplementedError

    async def erase(self, user: str, sessions: list[str]) -> None:
        """Erase a user with the means of the library; it may need to be told the sessions."""
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    def parts(self, messages: list[Said]) -> list[list[Said]]:
        """Divide a turn into what the framework writes at a time."""
        return [messages]

    async def turn(
        self, session: str, user: str, messages: list[Said], pause: Callable[[], float]
    ) -> None:
        """Write a turn as the framework does; the model and the tool take a pause each."""
        for part in self.parts(messages):
            for message in part:
                await asyncio.sleep(0 if message["role"] == "user" else pause())
            await self.add(session, user, part)

    # What the scenarios call.

    def set_clock(self, ahead: float) -> None:
        clock.set_clock(ahead)

    async def warm_up(self, session: str, user: str) -> None:
        await self.newest(session, user, 1)

    async def try_add(self, session: str, user: str, messages: list[Said]) -> str:
        """Add messages; the error, or nothing."""
        try:
            await self.add(session, user, messages)
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:300]
        return ""

    async def add_pairs(self, session: str, user: str, prefix: str, pairs: int) -> dict[str, Any]:
        """Add messages two at a time as fast as can be; those that were refused, and why."""
        refused: dict[str, str] = {}
        started = perf_counter()
        for number in range(pairs):
            ids = [f"{prefix}.{2 * number}", f"{prefix}.{2 * number + 1}"]
            pair = [said(ids[0]), said(ids[1], "assistant")]
            if error := await self.try_add(session, user, pair):
                refused.update(dict.fromkeys(ids, error))
        return {"refused": refused, "seconds": perf_counter() - started}

    def start_turns(self, place: str, session: str, user: str, longest: float) -> None:
        """Fork a process that writes turns to a session until it is killed.

        This process imports the library, so that the other ones have it at once.
        """
        exec(self.imports)
        self._writer = os.fork()
        if not self._writer:
            try:
                asyncio.run(self._write_turns(place, session, user, longest))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)

    def kill_turns(self) -> None:
        """Kill the process that was started last."""
        os.kill(self._writer, signal.SIGKILL)
        os.waitpid(self._writer, 0)

    async def _write_turns(self, place: str, session: str, user: str, longest: float) -> None:
        """Write turns without an end; one that fails is given up."""
        await self.open(place)
        for number in range(EVERYTHING):
            messages = turn(f"{session}-{number}")
            with suppress(Exception):
                await self.turn(session, user, messages, lambda: random.uniform(0, longest))

    async def fill(self, session: str, user: str, first: int, count: int) -> None:
        """Add so many messages, many at a time; `first` of them are there already."""
        numbers = range(first // 4, (first + count) // 4)
        messages = [message for number in numbers for message in turn(f"{session}-{number}")]
        for start in range(0, count, 400):
            await self.add(session, user, messages[start : start + 400])

    async def time_adds(self, session: str, user: str, count: int, prefix: str) -> list[float]:
        """The seconds of adding one message."""
        ids = [f"{session}-one-{prefix}-{number}" for number in range(count)]
        return await _times([partial(self.add, session, user, [said(id)]) for id in ids])

    async def time_turns(self, session: str, user: str, count: int, prefix: str) -> list[float]:
        """The seconds of adding a turn of four messages, as the framework writes it."""
        turns = [turn(f"{session}-{prefix}-{number}") for number in range(count)]
        return await _times([partial(self.turn, session, user, each, float) for each in turns])

    async def time_newest(self, session: str, user: str, count: int, times: int) -> list[float]:
        """The seconds of reading the newest messages."""
        assert len(await self.newest(session, user, count)) == count
        return await _times([partial(self.newest, session, user, count)] * times)


async def _times(calls: Sequence[Callable[[], Awaitable[object]]]) -> list[float]:
    times = []
    for call in calls:
        started = perf_counter()
        await call()
        times.append(perf_counter() - started)
    return times
