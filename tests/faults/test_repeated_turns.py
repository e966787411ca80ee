"""A turn that was killed at any of its steps, and repeated from its start, is applied once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jazzmine.sync import MessageStore, WorkingMemory, WorkingMemoryStore
from tests.faults.networks import BRIEF_TRANSACTIONS, Config, config_of
from tests.faults.sizes import report, size
from tests.servers.programs import Program

PROGRAM = str(Path(__file__).with_name("turn_program.py"))
STEPS = range(1, 7)  # all steps of `turn_program.turn`, and one more
MESSAGES = size(9, 1000)
CONVERSATION = "c1"
STORES = ["sqlite", "postgres", "mongodb and redis", "json and sqlite"]

Stores = tuple[Config, Config]  # of messages, and of working memory


@contextmanager
def at(name: str, folder: Path) -> Iterator[Stores]:
    """The configurations of two empty stores."""
    messages, _, memory = name.partition(" and ")
    with (
        config_of(messages, folder, BRIEF_TRANSACTIONS) as first,
        config_of(memory or messages, folder) as second,
    ):
        yield first, second if memory else first


def program(stores: Stores, stop_at: int, *ids: str) -> Program:
    addresses = map(json.dumps, stores)
    command = [sys.executable, PROGRAM, *addresses, str(stop_at), *ids]
    return Program(command, stdout=subprocess.PIPE, text=True)


def run(stores: Stores, stop_at: int, *ids: str) -> int:
    ended = program(stores, stop_at, *ids)
    ended.communicate()
    return ended.returncode


def assert_applied_once(stores: Stores, message_ids: list[str]) -> None:
    """Fail unless each message has one answer, one trace, one turn and one change."""
    with MessageStore.initialize(stores[0]) as store:
        stored = [each.id for each in store.get_messages_by_conversation_id(CONVERSATION)]
        traces = store.get_turn_traces_by_conversation_id(CONVERSATION)
    with WorkingMemoryStore.initialize(stores[1]) as memory:
        state = memory.get(CONVERSATION)
    assert state is not None
    assert stored[::2] == message_ids
    assert stored[1::2] == [f"{asked}-reply" for asked in message_ids]
    assert Counter(t.message_id for t in traces) == Counter(stored[1::2])
    assert sorted(t.turn_number for t in traces) == list(range(1, len(message_ids) + 1))
    assert state.data["counts"] == dict.fromkeys(message_ids, 1)
    assert state.turn_number == len(message_ids)
    ended = [f"m{number}" for number in range(0, len(message_ids) - 2, 3)]
    newest = [(flow.flow_id, flow.status) for flow in state.flow_history]
    assert state.flow_count == len(ended)
    assert newest == [(each, "completed") for each in ended[-len(newest) :]]


@pytest.mark.parametrize("step", STEPS)
def test_a_turn_that_was_killed_at_a_step_and_is_repeated_is_applied_once(
    step: int, tmp_path: Path
) -> None:
    with at("sqlite", tmp_path) as stores:
        run(stores, 0, "m0", "m1")

        killed = run(stores, step, "m2")
        run(stores, 0, "m2")

        assert killed == (0 if step == STEPS[-1] else -9)
        assert_applied_once(stores, ["m0", "m1", "m2"])


@pytest.mark.parametrize("name", STORES)
def test_every_message_delivered_twice_to_programs_that_are_killed_is_applied_once(
    name: str, tmp_path: Path
) -> None:
    chance = random.Random(7)
    message_ids = [f"m{number}" for number in range(MESSAGES)]
    kills = 0
    with at(name, tmp_path) as stores:
        run(stores, 0, message_ids[0])
        waiting = [each for each in message_ids for _ in range(2)]
        while waiting:
            # Each of two programs is handed the same; what one has done the other one repeats. One
            # that is late must find its message among the last 16.
            programs = [program(stores, 0, *waiting[first : first + 30]) for first in (0, 1)]
            done: list[str] = []
            assert programs[0].stdout is not None
            for line in programs[0].stdout:
                done.append(line.strip())
                if chance.random() < 1 / size(5, 15):
                    time.sleep(chance.random() / 50)
                    break
            for each in programs:
                kills += each.poll() is None
                each.kill()
                each.communicate()
            waiting = waiting[len(done) :]

        assert kills > 1
        assert_applied_once(stores, message_ids)
    report(f"repeated turns, {name}: {MESSAGES} turns, {kills} kills: each applied once")


@pytest.mark.parametrize("again", [["m1", "m2"], ["m4", "m5"]], ids=["the same", "others"])
def test_a_turn_that_was_taken_back_is_made_anew(again: list[str], tmp_path: Path) -> None:
    with at("sqlite", tmp_path) as stores:
        run(stores, 0, "m0")
        with (
            MessageStore.initialize(stores[0]) as store,
            WorkingMemoryStore.initialize(stores[1]) as memory,
        ):
            newest_id = store.get_messages_by_conversation_id(CONVERSATION)[-1].id
            snapshot = memory.get_or_create(CONVERSATION, "ada", "desk").to_dict()
            run(stores, 0, "m1", "m2")

            memory.get(CONVERSATION)
            store.rewind_conversation(CONVERSATION, after=newest_id)
            memory.restore(CONVERSATION, WorkingMemory.from_dict(snapshot))
        run(stores, 0, *again)

        assert_applied_once(stores, ["m0", *again])
