"""A program that does not close its store ends at once, even if the server is absent."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.servers import postgres
from tests.servers.proxy import Proxy

ASYNC = """
import asyncio, sys
from jazzmine.core.message_store import MessageStore

async def main():
    config = {"storage": "postgres", "dsn": sys.argv[1], "schema": sys.argv[2], "pool_min": 3}
    store = await MessageStore.initialize(config)
    print("ready", flush=True)
    sys.stdin.readline()
    calls = [asyncio.create_task(store.ping()) for _ in range(int(sys.argv[3]))]
    await asyncio.sleep(1.0)
    print("ends", flush=True)

asyncio.run(main())
"""

SYNC = """
import sys, threading, time
from jazzmine.sync import MessageStore

def main():
    config = {"storage": "postgres", "dsn": sys.argv[1], "schema": sys.argv[2], "pool_min": 3}
    store = MessageStore.initialize(config)
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(sys.argv[3])):
        threading.Thread(target=store.ping, daemon=True).start()
    time.sleep(1.0)
    print("ends", flush=True)

main()
"""


@pytest.fixture
def schema() -> Iterator[str]:
    with postgres.empty_schema() as name:
        yield name


@pytest.mark.parametrize("calls", [0, 1, 6])
@pytest.mark.parametrize("away", ["silent", "refusing"])
@pytest.mark.parametrize("program", [ASYNC, SYNC], ids=["async", "sync"])
def test_a_program_that_does_not_close_its_store_ends(
    program: str, away: str, calls: int, schema: str
) -> None:
    with Proxy(postgres.port_of(postgres.dsn())) as proxy:
        dsn = postgres.changed(postgres.dsn(), host="127.0.0.1", port=proxy.port)
        command = [sys.executable, "-c", program, dsn, schema, str(calls)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == "ready\n"
                if away == "silent":
                    proxy.swallow_replies = True
                else:
                    proxy._listener.close()
                if not calls:
                    proxy.cut()
                process.stdin.write("\n")
                process.stdin.flush()
                assert process.stdout.readline() == "ends\n"
                ended = time.monotonic()
                said = process.communicate(timeout=10)[1]
                assert time.monotonic() - ended < 1.5
            finally:
                process.kill()
    assert "Task was destroyed" not in said
    assert "Traceback" not in said
