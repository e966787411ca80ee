"""A program that does not close its store ends at once, even if a server or a lock is not there."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.faults.sizes import TOLERANCE
from tests.servers import postgres
from tests.servers.proxy import Proxy

# A block that is not left holds the lock, and renews it; one call waits for the lock.
ASYNC = """
import asyncio, json, sys
from jazzmine.core import WorkingMemoryStore

async def main(config, ids):
    store = await WorkingMemoryStore.initialize(config)
    calls = []
    for id in ids:
        await store.get_or_create(id, "u", "a")
    if ids:
        await store.locked("c").__aenter__()
        calls.append(asyncio.create_task(store.end_turn("c", "Hello", "greet")))
    await asyncio.sleep(0.1)
    print("ready", flush=True)
    sys.stdin.readline()
    calls += [asyncio.create_task(store.end_turn(id, "Hello", "greet")) for id in ids]
    await asyncio.sleep(0.3)
    print("ends", flush=True)

asyncio.run(main(json.loads(sys.argv[1]), sys.argv[2]))
"""

SYNC = """
import json, sys, threading, time
from jazzmine.sync import WorkingMemoryStore

def main(config, ids):
    store = WorkingMemoryStore.initialize(config)

    def call(id):
        threading.Thread(target=store.end_turn, args=(id, "Hello", "greet"), daemon=True).start()

    for id in ids:
        store.get_or_create(id, "u", "a")
    if ids:
        store.locked("c").__enter__()
        call("c")
    time.sleep(0.1)
    print("ready", flush=True)
    sys.stdin.readline()
    for id in ids:
        call(id)
    time.sleep(0.3)
    print("ends", flush=True)

main(json.loads(sys.argv[1]), sys.argv[2])
"""
each_program = pytest.mark.parametrize("program", [ASYNC, SYNC], ids=["async", "sync"])


def assert_it_ends(command: list[str], fail: Callable[[], None], *, silently: bool = True) -> None:
    """Start a program, let its database fail, and fail unless it ends at once and silently."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            fail()
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "ends\n"
            ended = time.monotonic()
            said = process.communicate(timeout=10)[1]
            assert time.monotonic() - ended < 1.5 + TOLERANCE
        finally:
            process.kill()
    if silently:
        assert "Task was destroyed" not in said
        assert "Traceback" not in said
    else:
        assert "Traceback" not in said or "psycopg_pool" in said


@each_program
@pytest.mark.parametrize("away", ["silent", "refusing"])
@pytest.mark.parametrize("ids", ["cde", ""], ids=["calls", "no calls"])
def test_a_program_that_does_not_close_its_store_ends(program: str, away: str, ids: str) -> None:
    with postgres.empty_schema() as schema, Proxy(postgres.port_of(postgres.dsn())) as proxy:
        dsn = postgres.changed(postgres.dsn(), host="127.0.0.1", port=proxy.port)
        config = {"storage": "postgres", "dsn": dsn, "schema": schema, "pool_min": 3}

        def fail() -> None:
            if away == "silent":
                proxy.swallow_replies = True
            else:
                proxy.refuse()
            if not ids:
                proxy.cut()

        # Before Python 3.12, a call that waits for a connection of psycopg's pool does so in a task
        # of the pool's, about which asyncio complains if the program ends meanwhile.
        silently = sys.version_info >= (3, 12) or not ids
        config["lock_timeout"] = 1
        command = [sys.executable, "-c", program, json.dumps(config), ids]
        assert_it_ends(command, fail, silently=silently)


@pytest.mark.parametrize("call", ["asyncio.run(core.%s)", "sync.%s"], ids=["async", "sync"])
def test_a_program_ends_while_its_pool_still_connects(call: str) -> None:
    program = "import asyncio, json, sys; from jazzmine import core, sync; "
    program += call % "MessageStore.initialize(json.loads(sys.argv[1]))"
    with postgres.empty_schema() as schema, Proxy(postgres.port_of(postgres.dsn())) as proxy:
        dsn = postgres.changed(postgres.dsn(), host="127.0.0.1", port=proxy.port)
        config = {"storage": "postgres", "dsn": dsn, "schema": schema, "pool_min": 3}
        proxy.delay = 0.1
        command = [sys.executable, "-c", program, json.dumps(config)]
        subprocess.run(command, check=True, timeout=60)


@each_program
def test_a_program_ends_while_another_process_holds_the_lock_of_its_sqlite_file(
    program: str, tmp_path: Path
) -> None:
    path = tmp_path / "agent.db"
    with ExitStack() as stack:

        def lock() -> None:
            other = stack.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
            other.execute("BEGIN IMMEDIATE")

        config = {"storage": "sqlite", "path": str(path), "lock_timeout": 1}
        assert_it_ends([sys.executable, "-c", program, json.dumps(config), "cde"], lock)
