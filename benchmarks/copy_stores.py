"""How long does `jazzmine copy` take from SQLite to PostgreSQL, beside a bare COPY of the rows?

The program reads and checks each record, stores it, and reads both sides for the checksums. The
bare COPY sends the same rows, from a binary file, into the same tables with their indexes and keys,
and checks nothing. The server waits for no disk. COPY_MESSAGES=1000000 copies so many messages;
the file then takes 1 GB, and the tables 2 GB.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.frame.lab import Lab, Side, alternate
from benchmarks.frame.records import conversations, messages
from benchmarks.frame.results import Row, at_most, within
from benchmarks.frame.scenario import Figures, Scenario
from jazzmine.core.message_store import Conversation, Message, MessageStore
from jazzmine.records.base import snapshot
from tests.servers.postgres import Server

MESSAGES = int(os.environ.get("COPY_MESSAGES", "100000"))
IN_A_CONVERSATION = 100
AT_ONCE = 5_000
ROUNDS = 3

SCHEMA = "copied"
TABLES = ("conversations", "messages")

# Runs the program, and prints the most memory that it took, in KB.
_PROGRAM = """
import resource, sys
from jazzmine.cli.app import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


class Copies(Scenario):
    """Copies into a new schema: with the program, and bare."""

    def __init__(self, folder: Path, source: str, dsn: str) -> None:
        super().__init__(folder)
        self._source, self._dsn = source, dsn

    def program(self) -> Figures:
        """Copy with the program."""
        import subprocess
        import sys

        self._make_tables()
        target = f"{self._dsn}?schema={SCHEMA}"
        command = [sys.executable, "-c", _PROGRAM, "copy", f"sqlite:{self._source}", target]
        started = perf_counter()
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds = perf_counter() - started
        return {"seconds": seconds, "bytes": 1024 * int(ran.stdout.split()[-1])}

    def export(self) -> Figures:
        """Write the rows that the program has copied to files."""
        with self._connected() as connection:
            for table in TABLES:
                command = f"COPY {SCHEMA}.{table} TO STDOUT (FORMAT binary)"
                with (
                    self._file(table).open("wb") as file,
                    connection.cursor().copy(command) as rows,
                ):
                    file.writelines(rows)
        return {}

    def bare(self) -> Figures:
        """Copy the rows of the files."""
        self._make_tables()
        started = perf_counter()
        with self._connected() as connection:
            for table in TABLES:
                command = f"COPY {SCHEMA}.{table} FROM STDIN (FORMAT binary)"
                with (
                    self._file(table).open("rb") as file,
                    connection.cursor().copy(command) as rows,
                ):
                    while some := file.read(1 << 17):
                        rows.write(some)
        return {"seconds": perf_counter() - started}

    def _file(self, table: str) -> Path:
        return self.folder / table

    def _connected(self) -> Any:
        import psycopg

        return psycopg.connect(self._dsn)

    def _make_tables(self) -> None:
        from jazzmine.sync.message_store import MessageStore as SyncMessageStore

        with self._connected() as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        SyncMessageStore.initialize(f"{self._dsn}?schema={SCHEMA}").close()


async def fill(path: Path) -> None:
    """Store the conversations and their messages."""
    count = max(1, MESSAGES // IN_A_CONVERSATION)
    async with await MessageStore.initialize(f"sqlite:{path}?synchronous=normal") as store:
        talks = [snapshot(one, Conversation) for one in conversations(count)]
        await store.backend.store_many(talks, [], [])
        for start in range(0, MESSAGES, AT_ONCE):
            told = messages(start, min(start + AT_ONCE, MESSAGES), count)
            await store.backend.store_many([], [snapshot(one, Message) for one in told], [])


def answer(lab: Lab) -> Iterator[Row]:
    if lab.self_check:
        return
    path = lab.folder() / "messages.db"
    asyncio.run(fill(path))
    with Server("18", fsync=False) as server:
        options = {"source": str(path), "dsn": server.dsn}
        with lab.worker(Side(Copies, options)) as worker:
            worker.call("program")
            worker.call("export")
            found = alternate(
                lambda: worker.call("program"), lambda: worker.call("bare"), ROUNDS, warm_up=False
            )
    yield Row(f"{MESSAGES:,} messages", found["seconds"], within(4), beside="bare COPY")
    yield Row("the program's memory", found["bytes"], at_most(200e6), unit="B")
