"""Everything is sealed anew with another key, beside other programs, and as often as one likes."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from jazzmine.sync import (
    LongTermMemoryStore,
    MessageStore,
    WorkingMemoryStore,
)
from jazzmine.sync.maintenance import iter_keys, purge
from tests.behaviour.backends import Config
from tests.behaviour.stored import everything
from tests.cli.program import run
from tests.encryption.keys import (
    FIRST,
    SECOND,
    WORD,
    as_text,
    forms,
    keyring,
    secret_conversation,
    secret_item,
    secret_message,
    secret_trace,
)

MESSAGES = [secret_message(f"m{number}", timestamp=number // 3) for number in range(120)]
STATES, ITEMS = 12, 120

Opened = Any


def sealed(config: Config, *ids: str) -> Config:
    return {**config, "encryption": keyring(*ids)}


def keys_of(store: Opened, *, rekeys: bool = False) -> Counter[tuple[str, str | None]]:
    """How many values of each kind a key has sealed, before they are sealed anew."""
    counts: Counter[tuple[str, str | None]] = Counter()
    for found in steps_of(store, rekeys=rekeys):
        assert not found.refused
        counts.update({(found.kind, name): number for name, number in found.counts.items()})
    return counts


def steps_of(store: Opened, *, rekeys: bool = True) -> Iterator[Any]:
    return iter_keys(store, rekeys=rekeys)


def talk(store: MessageStore) -> None:
    store.store_conversation(secret_conversation())
    store.store_messages(MESSAGES)
    store.store_turn_trace(secret_trace("m1"))
    store.store_turn_trace(secret_trace("m2"))


def said(store: MessageStore) -> list[Any]:
    return [
        store.get_conversations(),
        store.get_messages_by_conversation_id("c1"),
        store.get_turn_traces_by_conversation_id("c1"),
    ]


def think(memory: WorkingMemoryStore) -> None:
    for number in range(STATES):
        memory.get_or_create(f"c{number}", "ann", "desk")
        memory.end_turn(f"c{number}", WORD, "greet")


def thought(memory: WorkingMemoryStore) -> list[Any]:
    return [memory.get(f"c{number}") for number in range(STATES)]


def embed(texts: list[str]) -> list[list[int]]:
    return [[3, 4]] * len(texts)


def keep(items: LongTermMemoryStore) -> None:
    for number in range(ITEMS):
        items.put(secret_item(f"k{number}"))


def kept(items: LongTermMemoryStore) -> list[Any]:
    return [*items.list_items(), *(found.item.key for found in items.search_items(WORD, limit=5))]


@contextmanager
def messages(config: Config) -> Iterator[MessageStore]:
    with MessageStore.initialize(config) as store:
        yield store


@contextmanager
def states(config: Config) -> Iterator[WorkingMemoryStore]:
    with WorkingMemoryStore.initialize(config) as store:
        yield store


@contextmanager
def items(config: Config) -> Iterator[LongTermMemoryStore]:
    with LongTermMemoryStore.initialize(config, embed=embed) as store:
        yield store


#: Opens a store, fills it, reads all of it, and how many values of each kind it then has.
Kind = tuple[Any, Callable[[Any], None], Callable[[Any], list[Any]], dict[str, int]]
KINDS: dict[str, Kind] = {
    "messages": (messages, talk, said, {"conversations": 1, "messages": 120, "traces": 2}),
    "states": (states, think, thought, {"states": STATES}),
    "items": (items, keep, kept, {"items": ITEMS, "vectors": ITEMS}),
}


def is_resumed(name: str, config: Config) -> None:
    open_store, fill, read, counts = KINDS[name]
    with open_store(sealed(config, FIRST)) as store:
        fill(store)
        before = read(store)

    with open_store(sealed(config, SECOND, FIRST)) as store:
        store.backend.deleted_at_once = 50
        for _ in islice(steps_of(store), 2):
            pass  # and it is interrupted
        found = keys_of(store)
        if config["storage"] != "json":  # all of its records are one step
            assert {name for _, name in found} == {FIRST, SECOND}
        assert read(store) == before

    with open_store(sealed(config, SECOND, FIRST)) as store:
        assert keys_of(store, rekeys=True) == found
        assert keys_of(store) == {(one, SECOND): n for one, n in counts.items()}

    with open_store(sealed(config, SECOND)) as store:
        assert read(store) == before


def is_sealed_afterwards(name: str, config: Config) -> None:
    open_store, fill, read, counts = KINDS[name]
    with open_store(config) as store:
        fill(store)
        before = read(store)

    accepting = {**sealed(config, FIRST), "encryption_accepts_plain": True}
    with open_store(accepting) as store:
        assert keys_of(store, rekeys=True) == {(one, None): n for one, n in counts.items()}
        purge(store)

    with open_store(sealed(config, FIRST)) as store:
        assert read(store) == before
    stored = everything(config)
    assert not [form for form in forms(WORD) if form in stored]


CHECKS = [is_resumed, is_sealed_afterwards]
each_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)


@pytest.mark.every_combination
@each_check
def test_messages(messages_config: Config, check: Callable[[str, Config], None]) -> None:
    check("messages", messages_config)


@pytest.mark.every_combination
@each_check
def test_working_memories(memory_config: Config, check: Callable[[str, Config], None]) -> None:
    check("states", memory_config)


@pytest.mark.every_combination
@each_check
def test_items(items_config: Config, check: Callable[[str, Config], None]) -> None:
    check("items", items_config)


# Beside others that write


@contextmanager
def beside(write: Callable[[int], Any]) -> Iterator[Callable[[], int]]:
    """Write in another thread for a block; the value counts the writes."""
    ended, numbers, errors = threading.Event(), count(), list[BaseException]()
    written = 0

    def run_on() -> None:
        nonlocal written
        try:
            while not ended.is_set():
                written = next(numbers)
                write(written)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run_on)
    thread.start()
    try:
        yield lambda: written
    finally:
        ended.set()
        thread.join()
        assert not errors


def rekeyed_while_it_is_written(store: Opened, writes: Callable[[], int]) -> None:
    """Change the key to and fro until a lot was written meanwhile."""
    while writes() < 30:
        keys_of(store, rekeys=True)


def test_no_write_to_messages_is_undone(messages_config: Config) -> None:
    both = sealed(messages_config, FIRST, SECOND)
    with messages(sealed(messages_config, SECOND, FIRST)) as store, messages(both) as other:
        store.store_conversation(secret_conversation())
        store.store_message(secret_message("m0"))

        def write(number: int) -> None:
            other.store_message(secret_message("m0", intent=f"intent {number}"))
            other.edit_conversation("c1", metadata={"number": number})
            other.flag_message("m0", number % 2 == 0)
            changed, found = other.get_message_by_id("m0"), other.get_conversation_by_id("c1")
            assert changed is not None
            assert found is not None
            assert (changed.intent, changed.is_flagged) == (f"intent {number}", number % 2 == 0)
            assert found.metadata["number"] == number

        with beside(write) as writes:
            rekeyed_while_it_is_written(store, writes)


def test_no_write_to_a_working_memory_is_undone(memory_config: Config) -> None:
    both = sealed(memory_config, FIRST, SECOND)
    with states(sealed(memory_config, SECOND, FIRST)) as store, states(both) as other:
        store.get_or_create("c1", "ann", "desk")

        def write(number: int) -> None:
            changed = other.update("c1", lambda memory: memory.set_data(number=number))
            assert changed.revision == number + 2
            with states(both) as another:
                found = another.get("c1")
            assert found is not None
            assert (found.revision, found.data) == (number + 2, {"number": number})

        with beside(write) as writes:
            rekeyed_while_it_is_written(store, writes)


def test_no_write_to_an_item_is_undone(items_config: Config) -> None:
    both = sealed(items_config, FIRST, SECOND)
    with items(sealed(items_config, SECOND, FIRST)) as store, items(both) as other:

        def write(number: int) -> None:
            put = other.put(secret_item("k", data=b"%d" % number))
            found = other.get(("n",), "k")
            assert found == put
            assert found.data == b"%d" % number

        with beside(write) as writes:
            rekeyed_while_it_is_written(store, writes)


def test_what_no_key_opens_is_left_and_named(items_config: Config) -> None:
    with items(sealed(items_config, "k3")) as store:
        store.put(secret_item("a"))
    with items(sealed(items_config, FIRST)) as store:
        store.put(secret_item("b"))

    with items(sealed(items_config, SECOND, FIRST)) as store:
        found = list(steps_of(store))
        assert [len(one.refused) for one in found] == [1, 1]
        assert "the item 'a' of ('n',) is encrypted with the key 'k3'" in found[0].refused[0]
        assert store.get(("n",), "b") is not None


# The command line


@pytest.fixture
def urls(tmp_path: Path) -> list[str]:
    """The options for three stores in one file, sealed with the first key."""
    path = str(tmp_path / "agent.db")
    config: Config = {"storage": "sqlite", "path": path, "encryption": keyring(FIRST)}
    for open_store, fill, _, _ in KINDS.values():
        with open_store(config) as store:
            fill(store)
    return ["--store", f"sqlite:{path}", "--memory", f"sqlite:{path}", "--items", f"sqlite:{path}"]


def test_the_command_seals_all_three_stores(urls: list[str]) -> None:
    keys = {"JAZZMINE_ENCRYPTION": as_text(SECOND, FIRST)}

    ran = run("rekey", *urls, env=keys)

    assert ran.status == 0, ran.errors
    assert ran.output.splitlines() == [
        "conversations: 1 encrypted with 'k2', 0 were before",
        "messages: 120 encrypted with 'k2', 0 were before",
        "traces: 2 encrypted with 'k2', 0 were before",
        "working memories: 12 encrypted with 'k2', 0 were before",
        "items: 120 encrypted with 'k2', 0 were before",
        "vectors of items: 120 encrypted with 'k2', 0 were before",
    ]
    assert (
        "messages: 0 encrypted with 'k2', 120 were before" in run("rekey", *urls, env=keys).output
    )


def test_doctor_counts_what_each_key_has_sealed(urls: list[str]) -> None:
    before = run("doctor", *urls, env={"JAZZMINE_ENCRYPTION": as_text(SECOND, FIRST)})
    assert "messages: 120 encrypted with 'k1', and not with the first key" in before.output
    assert "jazzmine rekey" in before.output
    assert before.status == 0

    lost = run("doctor", *urls, env={"JAZZMINE_ENCRYPTION": as_text(SECOND)})
    assert "encrypted with the key 'k1'; the keyring has 'k2'" in lost.output
    assert "cure: set JAZZMINE_ENCRYPTION to the key that was used" in lost.output
    assert lost.status == 1

    same = run("doctor", *urls, env={"JAZZMINE_ENCRYPTION": as_text(FIRST)})
    assert "working memories: 12 encrypted with 'k1'\n" in same.output
    assert "do not open" not in same.output

    mistyped = as_text(SECOND).replace("k2:", "k1:")
    other = run("doctor", *urls, env={"JAZZMINE_ENCRYPTION": mistyped})
    assert other.output.count("the key 'k1' opens nothing") == 3  # of each kind of store
    assert other.status == 1

    with closing(sqlite3.connect(urls[1].removeprefix("sqlite:"))) as file, file:
        file.execute("UPDATE working_memory SET user_id = 'eve' WHERE rowid IN (1, 3)")
    changed = run("doctor", *urls, env={"JAZZMINE_ENCRYPTION": as_text(FIRST)})
    assert "working memories: 2 do not open" in changed.output
    assert changed.status == 1


def test_a_record_that_cannot_be_sealed_is_told_without_its_values(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    url, keys = f"sqlite:{path}", {"JAZZMINE_ENCRYPTION": as_text(FIRST)}
    with MessageStore.initialize(url) as store:
        store.store_conversation(secret_conversation())
        store.store_message(secret_message())
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("""UPDATE stored_messages SET body = json_set(body, '$.role', 'sesame')""")

    ran = run("rekey", "--store", f"{url}?encryption_accepts_plain=true", env=keys)

    assert ran.status == 1
    assert "role: Input should be 'user'" in ran.errors
    assert "not encrypted, for the reasons above: 1 value\n" in ran.errors
    for private in ("sesame", "pydantic", "\\n"):
        assert private not in ran.errors
