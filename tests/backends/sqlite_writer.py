"""Run by a test: writes messages and traces to an SQLite store until it is killed.

Arguments: the path, a name, a number of turns, and the number of the first one. On stdout it prints
the number of each turn whose write has returned.
"""

from __future__ import annotations

import asyncio
import os
import sys

from jazzmine.core import message_store as async_messages
from jazzmine.sync import message_store as sync_messages
from tests.behaviour.samples import message, trace


def message_ids(name: str, number: int) -> list[str]:
    """Return the ids of the messages of a turn; the second one has a trace."""
    return [f"{name}-{number}-{part}" for part in ("user", "agent")]


def _write_sync(path: str, name: str, count: int, first: int) -> None:
    with sync_messages.MessageStore.initialize({"storage": "sqlite", "path": path}) as store:
        for number in range(first, first + count):
            ids = message_ids(name, number)
            store.store_turn(messages=[message(one) for one in ids], trace=trace(ids[1]))
            os.write(1, b"%d\n" % number)


async def _write_async(path: str, name: str, count: int, first: int) -> None:
    config = {"storage": "sqlite", "path": path}
    async with await async_messages.MessageStore.initialize(config) as store:

        async def write(number: int) -> None:
            ids = message_ids(name, number)
            await store.store_turn(messages=[message(one) for one in ids], trace=trace(ids[1]))
            os.write(1, b"%d\n" % number)

        for number in range(first, first + count, 4):
            await asyncio.gather(*(write(number + more) for more in range(4)))


if __name__ == "__main__":
    _, api, where, who, turns, begin = sys.argv
    if api == "sync":
        _write_sync(where, who, int(turns), int(begin))
    else:
        asyncio.run(_write_async(where, who, int(turns), int(begin)))
