"""Items of a long-term memory after a write was given up, and after an erasure."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from jazzmine import MemoryItem, PutItem
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from tests.faults.networks import NETWORKS

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
