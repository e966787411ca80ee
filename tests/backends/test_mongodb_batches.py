"""Messages that tasks store concurrently, and writes concurrent with deletions."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from jazzmine._async.message_store.deletion_gate import DeletionGate
from jazzmine._sync.message_store.deletion_gate import DeletionGate as SyncDeletionGate
from jazzmine.core.message_store import MessageStore
from jazzmine.deadline import Deadline
from tests.backends.mongodb_commands import Commands
from tests.behaviour.samples import conversation, message
from tests.servers import mongodb


async def test_messages_that_are_stored_at_once_are_few_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with mongodb.database() as config:
        commands = Commands(monkeypatch)
        async with await MessageStore.initialize(config) as store:
            await store.store_conversation(conversation())
            commands.clear()

            new = [message(f"m{number}") for number in range(50)]
            await asyncio.gather(*(store.store_message(one) for one in new))

            assert len(commands.sent) <= 8
            assert len(await store.get_messages_by_conversation_id("c1")) == 50


async def test_a_write_continues_at_once_when_the_deletion_has_ended() -> None:
    gate, deadline = DeletionGate(), Deadline(10)
    assert await gate.begin_deleting(["c1"], deadline)
    writing = asyncio.ensure_future(gate.begin_writing(["c1"], deadline))
    other = await gate.begin_writing(["c2"], deadline)
    await asyncio.sleep(0.05)
    assert other
    assert not writing.done()

    gate.end_deleting(["c1"])

    assert await asyncio.wait_for(writing, 1)


async def test_a_deletion_waits_for_the_writes_and_leaves_nothing_at_its_deadline() -> None:
    gate = DeletionGate()
    assert await gate.begin_writing(["c1", "c1"], Deadline(10))

    assert not await gate.begin_deleting(["c1"], Deadline(0.05))
    assert await gate.begin_writing(["c1"], Deadline(10))
    gate.end_writing(["c1"])
    gate.end_writing(["c1", "c1"])
    assert await gate.begin_deleting(["c1"], Deadline(10))


async def test_a_deletion_that_is_cancelled_while_it_waits_lets_writes_continue() -> None:
    gate = DeletionGate()
    await gate.begin_writing(["c1"], Deadline(10))
    deleting = asyncio.ensure_future(gate.begin_deleting(["c1"], Deadline(10)))
    await asyncio.sleep(0.05)

    deleting.cancel()
    await asyncio.wait([deleting])

    assert await gate.begin_writing(["c1"], Deadline(0.05))


def test_threads_are_woken_too() -> None:
    gate = SyncDeletionGate()
    gate.begin_deleting(["c1"], Deadline(10))
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(gate.begin_writing(["c1"], Deadline(10))))
    thread.start()
    time.sleep(0.05)
    assert not done

    gate.end_deleting(["c1"])
    thread.join(5)

    assert done == [True]
