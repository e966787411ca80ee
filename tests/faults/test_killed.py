"""A process is killed with kill -9 while it writes or deletes: nothing is lost, or half done."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jazzmine.records.base import RecordKind
from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore
from jazzmine.sync.maintenance import iter_records
from tests.behaviour.samples import NOW, conversation, ids, messages, trace
from tests.faults.killed_program import SHARED
from tests.faults.networks import Config, config_of
from tests.faults.sizes import report, size
from tests.servers.programs import Program


def started(config: Config, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.faults.killed_program", json.dumps(config), *arguments]
    return Program(command, stdout=subprocess.PIPE, text=True)


def kill(process: subprocess.Popen[str], seconds: float) -> list[str]:
    """Kill a process some time after its first line, and return the lines that it printed."""
    with process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(seconds)
        process.kill()
        return (first + process.stdout.read()).split("\n")[:-1]


def assert_sound(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# Messages in a file

KILLS = size(8, 500)
LONGEST_LIFE = 0.012


def kill_writers(path: Path, api: str, broken: str = "", count: int = KILLS) -> int:
    """Kill writers one after another; fail unless the file has what they have acknowledged.

    Returns:
        How many writes were acknowledged.
    """
    chance = random.Random(4711)
    config: Config = {"storage": "json" if path.suffix == ".json" else "sqlite", "path": str(path)}
    acknowledged: dict[str, int] = {}
    writes = 0
    with MessageStore.initialize(config) as store:
        store.store_conversation(conversation("c1"))
    for life in range(count):
        writer = started(config, "messages", api, str(life * 100_000 + 1), broken)
        for line in kill(writer, chance.uniform(0, LONGEST_LIFE)):
            message_id, number = line.split()
            acknowledged[message_id] = int(number)
            writes += 1
        if path.suffix == ".db":
            assert_sound(path)
        else:
            try:
                json.loads(path.read_bytes())
            except ValueError:
                raise AssertionError("an unreadable file") from None
        with MessageStore.initialize(config) as store:
            for message_id, written in acknowledged.items():
                stored = store.get_message_by_id(message_id)
                found = stored.episode_id if stored else 0
                assert found >= written, f"lost the acknowledged write {written} of {message_id}"
    return writes


@pytest.mark.parametrize("api", ["async", "sync"])
@pytest.mark.parametrize("name", ["messages.json", "messages.db"])
def test_no_kill_loses_an_acknowledged_write_or_leaves_half_a_file(
    tmp_path: Path, name: str, api: str
) -> None:
    writes = kill_writers(tmp_path / name, api)

    assert writes >= KILLS
    report(f"killed, {name}, {api}: {KILLS} kill -9, {writes} acknowledged writes: 0 lost")


@pytest.mark.parametrize(
    ("broken", "found"), [("in place", "an unreadable file"), ("early", "lost the acknowledged")]
)
def test_a_writer_that_breaks_its_promise_is_found_out(
    tmp_path: Path, broken: str, found: str
) -> None:
    with pytest.raises(AssertionError, match=found):
        kill_writers(tmp_path / "messages.json", "sync", broken, 100)


# Items


@pytest.mark.parametrize("name", ["sqlite", "postgres", "mongodb"])
def test_four_processes_add_to_one_number_by_compare_and_set(name: str, tmp_path: Path) -> None:
    each = {"sqlite": size(30, 400), "postgres": size(30, 400), "mongodb": size(5, 50)}[name]
    with config_of(name, tmp_path) as config:
        LongTermMemoryStore.initialize(config).close()
        writers = [started(config, "add", str(each)) for _ in range(4)]
        for writer in writers:
            writer.communicate(timeout=100)
        assert [writer.returncode for writer in writers] == [0] * 4
        with LongTermMemoryStore.initialize(config) as store:
            found = store.get(SHARED, "number")

    assert found is not None
    assert found.value == {"number": 4 * each}


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_changes_that_a_killed_process_has_acknowledged_are_stored_together(
    name: str, tmp_path: Path
) -> None:
    chance = random.Random(4711)
    with config_of(name, tmp_path) as config:
        LongTermMemoryStore.initialize(config).close()
        for life in range(size(3, 200)):
            names = [f"{life}-{number}" for number in range(2)]
            writers = [started(config, "pairs", name) for name in names]
            counts = [len(kill(writer, chance.uniform(0.0, 0.1))) for writer in writers]
            with LongTermMemoryStore.initialize(config) as store:
                for name, count in zip(names, counts, strict=True):
                    left, right, last = (
                        [stored.key for stored in store.list_items((name, side))]
                        for side in ("left", "right", "last")
                    )
                    assert left == right == [f"{number:06}" for number in range(len(left))]
                    assert len(left) in (count, count + 1)
                    assert last == left[-1:]


# Working memory


def test_no_kill_loses_an_acknowledged_update_or_makes_it_twice(tmp_path: Path) -> None:
    chance = random.Random(4711)
    path = tmp_path / "agent.db"
    config: Config = {"storage": "sqlite", "path": str(path)}
    with WorkingMemoryStore.initialize(config) as store:
        last = store.get_or_create("c", "user", "agent").revision
        for _ in range(size(2, 250)):
            writers = [started(config, "updates") for _ in range(4)]
            lines = [kill(writer, chance.uniform(0, 0.04)) for writer in writers]
            acknowledged = [int(line) for said in lines for line in said]
            # Each number was given to one update, and all of them come after those before.
            assert len(set(acknowledged)) == len(acknowledged), "an update was lost"
            assert min(acknowledged) > last
            # At most one update of each process was not acknowledged any more.
            most = last + len(acknowledged) + len(writers)
            last = store.end_turn("c", "Hello", "greet").revision
            assert max(acknowledged) < last <= most + 1
            assert_sound(path)


# Deletions and forks of a long conversation

KINDS: list[RecordKind] = ["conversations", "messages", "traces"]
DELETIONS = size(3, 60)
LONG = [f"a{number}" for number in range(120)]


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
    conversations, found, traces = settled(store)
    assert {one.conversation_id for one in found} <= {one.id for one in conversations}
    assert {one.message_id for one in traces} <= {one.id for one in found}
    if any(one.id == "copy" for one in conversations):
        copied = [one for one in found if one.conversation_id == "copy"]
        assert len(copied) == len(LONG), "a part of a conversation was forked"


# Not MongoDB: SecantusDB keeps the transaction of a killed process, and then drops no database.
@pytest.mark.parametrize("name", ["json", "sqlite", "postgres"])
def test_what_a_killed_deletion_or_fork_left_is_whole_and_can_be_deleted(
    name: str, tmp_path: Path
) -> None:
    chance = random.Random(4711)
    calls = ["erase", "prune", "fork"]
    with config_of(name, tmp_path) as config, MessageStore.initialize(config) as store:
        for number in range(DELETIONS):
            fill(store)

            kill(started(config, calls[number % 3], str(NOW + 500)), chance.uniform(0, 0.08))

            assert_whole(store)
            while store.erase_user("ann").messages:
                pass
            assert_whole(store)
            assert [ids(found) for found in settled(store)] == [["other"], ["b1", "b2"], []]
    report(f"deletions killed, {name}: {DELETIONS} kill -9: nothing half deleted or half forked")
