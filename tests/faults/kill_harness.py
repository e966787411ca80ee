"""Run by a test: forks one writer after another, and kills each with kill -9.

A line on stdin, `FIRST DELAY`, starts a writer whose messages are numbered from FIRST on; it is
killed DELAY s after its first write was acknowledged. On stdout a writer prints `ID NUMBER`
after each write that returned; the harness prints `killed` once the writer is dead.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from jazzmine import Message, MessageRole
from jazzmine.backends.json import database as json_store
from jazzmine.core import message_store as async_messages
from jazzmine.sync import message_store as sync_messages

WRITERS = 3
IDS = 8
TEXT = "x" * 20_000

_ready, _steady = os.pipe()


def _message(writer: int, number: int) -> Message:
    return Message(
        id=f"w{writer}-{number % IDS}",
        conversation_id="c1",
        user_id="u1",
        role=MessageRole.USER,
        original_content=TEXT,
        episode_id=number,
        timestamp=writer,
    )


def _acknowledge(message: Message) -> None:
    os.write(1, f"{message.id} {message.episode_id}\n".encode())
    os.write(_steady, b".")


def _write_sync(path: str, first: int, early: bool) -> None:
    store = sync_messages.MessageStore.initialize(path)

    def write(writer: int) -> None:
        for number in range(first, sys.maxsize):
            message = _message(writer, number)
            if early:
                _acknowledge(message)
            store.store_message(message)
            if not early:
                _acknowledge(message)

    for writer in range(WRITERS):
        threading.Thread(target=write, args=(writer,)).start()
    signal.pause()


async def _write_async(path: str, first: int, early: bool) -> None:
    store = await async_messages.MessageStore.initialize(path)

    async def write(writer: int) -> None:
        for number in range(first, sys.maxsize):
            message = _message(writer, number)
            if early:
                _acknowledge(message)
            await store.store_message(message)
            if not early:
                _acknowledge(message)

    await asyncio.gather(*(write(writer) for writer in range(WRITERS)))


def _write_in_place(path: str, content: Any, **_: object) -> None:
    """Write in place, which is wrong: a process that is killed meanwhile leaves half a file."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    for block in content:
        os.write(fd, block)
        time.sleep(0.001)
    os.close(fd)


def _live(work: Callable[[int], Any], first: int, delay: float) -> None:
    pid = os.fork()
    if pid == 0:
        os.close(0)
        work(first)
        os._exit(0)
    select.select([_ready], [], [], 30)
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.read(_ready, 65536)
    os.write(1, b"killed\n")


def main(path: str, api: str, broken: str) -> None:
    """Read lines until stdin ends."""
    if broken == "in place":
        vars(json_store)["replace_file"] = _write_in_place
    early = broken == "early"

    def work(first: int) -> None:
        if api == "sync":
            _write_sync(path, first, early)
        else:
            asyncio.run(_write_async(path, first, early))

    for line in sys.stdin:
        first, delay = line.split()
        _live(work, int(first), float(delay))


if __name__ == "__main__":
    main(*sys.argv[1:])
