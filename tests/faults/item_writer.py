"""A process that writes items: `python -m tests.faults.item_writer CONFIG NAME COUNT`.

With a count it adds 1 so many times to a number that several processes share, by compare-and-set.
Without one it stores pairs of items until it is killed, and prints the number of each pair.
"""

from __future__ import annotations

import json
import sys

from jazzmine import ConflictError, DeleteItem, MemoryItem, PutItem
from jazzmine.sync.long_term_memory import LongTermMemoryStore

SHARED = ("shared",)


def add_to_number(store: LongTermMemoryStore, count: int) -> None:
    for _ in range(count):
        while True:
            stored = store.get(SHARED, "number")
            number = stored.value["number"] if stored else 0
            item = MemoryItem(namespace=SHARED, key="number", value={"number": number + 1})
            try:
                store.put(item, expected_revision=stored.revision if stored else None)
            except ConflictError:
                continue
            break


def store_pairs(store: LongTermMemoryStore, name: str) -> None:
    number = 0
    while True:
        pair = [
            MemoryItem(namespace=(name, side), key=f"{number:06}", value={"n": number})
            for side in ("left", "right")
        ]
        last = DeleteItem((name, "last"), f"{number - 1:06}")
        newest = MemoryItem(namespace=(name, "last"), key=f"{number:06}", value={})
        store.apply([*map(PutItem, pair), last, PutItem(newest)])
        print(number, flush=True)
        number += 1


if __name__ == "__main__":
    with LongTermMemoryStore.initialize(json.loads(sys.argv[1])) as opened:
        if len(sys.argv) > 3:
            add_to_number(opened, int(sys.argv[3]))
        else:
            store_pairs(opened, sys.argv[2])
