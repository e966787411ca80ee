"""A turn that was killed at any of its steps, and repeated from its start, is applied once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from jazzmine.sync import MessageStore, WorkingMemoryStore
from tests.faults.sizes import SOAK

PROGRAM = str(Path(__file__).with_name("turn_program.py"))
STEPS = range(1, 7)  # all steps of `turn_program.turn`, and one more
MESSAGES = 100 if SOAK else 12
CONVERSATION = "c1"


def command(path: Path, stop_at: int, *ids: str) -> list[str]:
    return [sys.executable, PROGRAM, str(path), str(stop_at), *ids]


def assert_applied_once(path: Path, message_ids: list[str]) -> None:
    """Fail unless each message has one answer, one trace, one turn and one change."""
    with (
        MessageStore.initialize(f"sqlite:{path}") as store,
        WorkingMemoryStore.initialize(f"sqlite:{path}") as memory,
    ):
        stored = [each.id for each in store.get_messages_by_conversation_id(CONVERSATION)]
        traces = store.get_turn_traces_by_conversation_id(CONVERSATION)
        state = memory.get(CONVERSATION)
    assert state is not None
    assert Counter(stored) == Counter([*message_ids, *(f"{each}-reply" for each in message_ids)])
    assert stored[1::2] == [f"{asked}-reply" for asked in stored[::2]]
    assert Counter(t.message_id for t in traces) == Counter(f"{m}-reply" for m in message_ids)
    assert state.data["cart"] == dict.fromkeys(message_ids, 1)
    assert state.turn_number == len(message_ids)


@pytest.mark.parametrize("step", STEPS)
def test_a_turn_that_was_killed_at_a_step_and_is_repeated_is_applied_once(
    step: int, tmp_path: Path
) -> None:
    path = tmp_path / "agent.db"
    subprocess.run(command(path, 0, "m1"), check=True)

    killed = subprocess.run(command(path, step, "m2"), check=False)
    subprocess.run(command(path, 0, "m2"), check=True)

    assert killed.returncode == (0 if step == STEPS[-1] else -9)
    assert_applied_once(path, ["m1", "m2"])


def test_every_message_delivered_twice_to_programs_that_are_killed_is_applied_once(
    tmp_path: Path,
) -> None:
    path, chance = tmp_path / "agent.db", random.Random(7)
    message_ids = [f"m{number}" for number in range(MESSAGES)]
    subprocess.run(command(path, 0, message_ids[0]), check=True)
    waiting = [each for each in message_ids for _ in range(2)]
    kills = 0
    while waiting:
        # Each of two programs is handed all that is left; what one has done the other one repeats.
        programs = [
            subprocess.Popen(command(path, 0, *waiting[first:]), stdout=subprocess.PIPE, text=True)
            for first in (0, 1)
        ]
        done: list[str] = []
        assert programs[0].stdout is not None
        for line in programs[0].stdout:
            done.append(line.strip())
            if chance.random() < 0.2:
                time.sleep(chance.random() / 50)
                break
        for program in programs:
            kills += program.poll() is None
            program.kill()
            program.communicate()
        waiting = waiting[len(done) :]

    assert kills > 1
    assert_applied_once(path, message_ids)
