"""Items of a long-term memory when replies are lost, processes are killed, and many write."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from jazzmine import MemoryItem, PutItem
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from tests.faults.item_writer import SHARED
from tests.faults.networks import NETWORKS, config_of
from tests.faults.sizes import size
from tests.servers.programs import Program

N = ("n",)


def item(key: str, text: str = "new", **fields: Any) -> MemoryItem:
    return MemoryItem(namespace=N, key=key, value={"text": text}, **fields)


def prepare(beside: LongTermMemoryStore) -> MemoryItem:
    for stored in beside.list_items():
        beside.delete(stored.namespace, stored.key)
    return beside.put(item("old", "old"))


@pytest.mark.parametrize("name", ["postgres", "mongodb"])
def test_a_write_that_was_given_up_does_not_take_effect_later(name: str) -> None:
    with (
        NETWORKS[name]() as network,
        LongTermMemoryStore.initialize(network.beside) as beside,
        LongTermMemoryStore.initialize({**network.through, "timeout": 1.0}) as store,
    ):
        old = prepare(beside)
        network.proxy.hold()
        with pytest.raises(ConnectionError):
            store.put(item("old"))
        threading.Timer(0.2, network.proxy.deliver).start()

        found = store.get(N, "old")
        time.sleep(0.5)

        assert found is not None
        assert beside.get(N, "old") == found
        assert found == old or found.value == {"text": "new"}


def start_writer(config: dict[str, object], name: str, *count: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.faults.item_writer", json.dumps(config), name, *count]
    return Program(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("name", ["sqlite", "postgres", "mongodb"])
def test_four_processes_add_to_one_number_by_compare_and_set(name: str, tmp_path: Path) -> None:
    each = {"sqlite": size(30, 400), "postgres": size(30, 400), "mongodb": size(5, 50)}[name]
    with config_of(name, tmp_path) as config:
        LongTermMemoryStore.initialize(config).close()
        writers = [start_writer(config, str(number), str(each)) for number in range(4)]
        assert [writer.wait(timeout=100) for writer in writers] == [0] * 4
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.close()
        with LongTermMemoryStore.initialize(config) as store:
            found = store.get(SHARED, "number")

    assert found is not None
    assert found.value == {"number": 4 * each}


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_what_a_killed_process_has_acknowledged_is_stored(name: str, tmp_path: Path) -> None:
    chance = random.Random(4711)
    with config_of(name, tmp_path) as config:
        LongTermMemoryStore.initialize(config).close()
        for life in range(size(3, 200)):
            writers = [start_writer(config, f"{life}-{number}") for number in range(2)]
            acknowledged = [kill(writer, chance.uniform(0.0, 0.1)) for writer in writers]
            with LongTermMemoryStore.initialize(config) as store:
                for number, last in enumerate(acknowledged):
                    check_pairs(store, f"{life}-{number}", last)


def kill(writer: subprocess.Popen[str], seconds: float) -> int:
    """Kill a process some time after its first write, and return the last number it printed."""
    with writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(seconds)
        writer.kill()
        rest = writer.stdout.read()
    return len((first + rest).split("\n")[:-1]) - 1


def check_pairs(store: LongTermMemoryStore, name: str, acknowledged: int) -> None:
    left, right, last = (
        [stored.key for stored in store.list_items((name, side))]
        for side in ("left", "right", "last")
    )
    assert left == right == [f"{number:06}" for number in range(len(left))]
    assert len(left) in (acknowledged + 1, acknowledged + 2)
    assert last == left[-1:]


SECRET = "sesame-4711-open"


def test_nothing_of_an_erased_user_is_left_in_the_files_of_sqlite(tmp_path: Path) -> None:
    config: dict[str, object] = {"storage": "sqlite", "path": str(tmp_path / "items.db")}
    with LongTermMemoryStore.initialize(config) as store:
        _store_secrets(store)
        assert store.erase_user(SECRET) == 300
        assert len(store.list_items()) == 300

        for file in tmp_path.iterdir():
            assert SECRET.encode() not in file.read_bytes(), file.name


def _store_secrets(store: LongTermMemoryStore) -> None:
    for begin in range(0, 600, 100):
        store.apply(
            [
                PutItem(
                    item(
                        str(number),
                        SECRET * (number % 7 + 1) if number % 2 else "other",
                        user_id=SECRET if number % 2 else "other",
                        data=SECRET.encode() * 300 if number % 2 else None,
                    )
                )
                for number in range(begin, begin + 100)
            ]
        )
    # Written again: what was there before is not left either.
    store.apply(
        [PutItem(item(str(number), f"{SECRET} again", user_id=SECRET)) for number in (1, 3, 5)]
    )
