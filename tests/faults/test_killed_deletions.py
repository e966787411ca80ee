"""A process is killed while it erases a user, prunes, or forks a long conversation."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jazzmine.records.base import RecordKind
from jazzmine.sync import MessageStore
from jazzmine.sync.maintenance import iter_records
from tests.behaviour.samples import NOW, conversation, ids, messages, trace
from tests.faults.networks import config_of
from tests.faults.sizes import report, size
from tests.servers.programs import Program

KINDS: list[RecordKind] = ["conversations", "messages", "traces"]
KILLS = size(3, 60)
# Not MongoDB: SecantusDB keeps the transaction of a killed process, and then drops no database.
STORES = ["json", "sqlite", "postgres"]
LONG = [f"a{number}" for number in range(120)]

PROGRAM = """
import json, sys
from jazzmine.sync import Conversation, MessageStore

config, call = json.loads(sys.argv[1]), sys.argv[2]
with MessageStore.initialize(config) as store:
    print("ready", flush=True)
    if call == "erase":
        store.erase_user("ann")
    elif call == "prune":
        store.prune_conversations(before=int(sys.argv[3]))
    else:
        copy = Conversation(id="copy", user_id="ann", agent_id="a1", last_updated_at=0)
        store.fork_conversation("long", copy)
"""


def fill(store: MessageStore) -> None:
    """Store a long conversation of Ann's with traces, and one of Bob's in which she wrote."""
    ann: dict[str, Any] = {"user_id": "ann", "timestamp": NOW}
    bob: dict[str, Any] = {"user_id": "bob", "timestamp": NOW + 1000}
    store.store_conversation(conversation("long", user_id="ann", last_updated_at=NOW))
    store.store_conversation(conversation("other", user_id="bob", last_updated_at=NOW + 1000))
    store.store_messages(messages(*LONG, conversation_id="long", **ann))
    for name in LONG[::4]:
        store.store_turn_trace(trace(name, conversation_id="long", user_id="ann"))
    store.store_messages(messages("b1", "b2", conversation_id="other", **bob))


def settled(store: MessageStore) -> list[list[Any]]:
    """Return all records, by kind, once a server has ended what the killed process asked of it."""
    before: list[list[Any]] = []
    while True:
        found = [
            [record for _, batch in iter_records(store, [kind], 500) for record in batch]
            for kind in KINDS
        ]
        if found == before:
            return found
        before = found
        time.sleep(0.05)


def assert_whole(store: MessageStore) -> None:
    """Fail if a message has no conversation, a trace no message, or a fork is half there."""
    conversations, messages, traces = settled(store)
    assert {one.conversation_id for one in messages} <= {one.id for one in conversations}
    assert {one.message_id for one in traces} <= {one.id for one in messages}
    if any(one.id == "copy" for one in conversations):
        copied = [one for one in messages if one.conversation_id == "copy"]
        assert len(copied) == len(LONG), "a part of a conversation was forked"


def kill_during(config: dict[str, object], call: str, seconds: float) -> None:
    arguments = [sys.executable, "-c", PROGRAM, json.dumps(config), call, str(NOW + 500)]
    with Program(arguments, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(seconds)
        process.kill()


@pytest.mark.parametrize("name", STORES)
def test_what_a_killed_deletion_or_fork_left_is_whole_and_can_be_deleted(
    name: str, tmp_path: Path
) -> None:
    chance = random.Random(4711)
    calls = ["erase", "prune", "fork"]
    with config_of(name, tmp_path) as config, MessageStore.initialize(config) as store:
        for number in range(KILLS):
            fill(store)

            kill_during(config, calls[number % 3], chance.uniform(0, 0.08))

            assert_whole(store)
            while store.erase_user("ann").messages:
                pass
            assert_whole(store)
            assert [ids(found) for found in settled(store)] == [["other"], ["b1", "b2"], []]
    report(f"deletions killed, {name}: {KILLS} kill -9: nothing half deleted or half forked")
