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

from jazzmine.sync import MessageStore
from jazzmine.sync.maintenance import purge, rekeyed
from tests.behaviour.backends import Config
from tests.behaviour.stored import everything
from tests.cli.program import objects, run
from tests.encryption.keys import (
    FIRST,
    ITEM_KIND,
    MESSAGE_KIND,
    SECOND,
    STATE_KIND,
    WORD,
    Kind,
    as_text,
    forms,
    keyring,
    sealed,
    secret_conversation,
    secret_item,
    secret_message,
)


def numbers_of(store: Any) -> dict[str, tuple[int, int]]:
    """Seal all values with the first key; return how many there are of a kind, and were before."""
    counts: Counter[str] = Counter()
    before: Counter[str] = Counter()
    for found in rekeyed(store):
        assert not found.refused
        counts[found.kind] += found.total
        before[found.kind] += found.before
    return {kind: (number, before[kind]) for kind, number in counts.items()}


Stored = tuple[Kind, Config]


@pytest.mark.every_combination
def test_what_was_interrupted_is_resumed(stored: Stored) -> None:
    kind, config = stored
    with kind.open(config, FIRST) as store:
        kind.fill(store)
        before = kind.read(store)

    with kind.open(config, SECOND, FIRST) as store:
        store.backend.deleted_at_once = 50
        for _ in islice(rekeyed(store), 2):
            pass  # and it is interrupted
        assert kind.read(store) == before

    with kind.open(config, SECOND, FIRST) as store:
        found = numbers_of(store)
        sums = [sum(numbers) for numbers in zip(*found.values(), strict=True)]
        if config["storage"] != "json":  # all of its records are one step
            assert 0 < sums[1] < sums[0]
        assert numbers_of(store) == {one: (n, n) for one, n in kind.counts.items()}

    with kind.open(config, SECOND) as store:
        assert kind.read(store) == before


@pytest.mark.every_combination
def test_what_was_plain_is_sealed_afterwards(stored: Stored) -> None:
    kind, config = stored
    with kind.open(config) as store:
        kind.fill(store)
        before = kind.read(store)

    with kind.open({**config, "encryption_accepts_plain": True}, FIRST) as store:
        assert numbers_of(store) == {one: (n, 0) for one, n in kind.counts.items()}
        purge(store)

    with kind.open(config, FIRST) as store:
        assert kind.read(store) == before
    found = everything(config)
    assert not [form for form in forms(WORD) if form in found]


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


def rekeyed_while_it_is_written(store: Any, writes: Callable[[], int]) -> None:
    """Change the key to and fro until a lot was written meanwhile."""
    while writes() < 30:
        numbers_of(store)


def test_no_write_to_messages_is_undone(messages_config: Config) -> None:
    both = sealed(messages_config, FIRST, SECOND)
    with (
        MESSAGE_KIND.open(messages_config, SECOND, FIRST) as store,
        MESSAGE_KIND.open(both) as other,
    ):
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
    with STATE_KIND.open(memory_config, SECOND, FIRST) as store, STATE_KIND.open(both) as other:
        store.get_or_create("c1", "ann", "desk")

        def write(number: int) -> None:
            changed = other.update("c1", lambda memory: memory.set_data(number=number))
            assert changed.revision == number + 2
            with STATE_KIND.open(both) as another:
                found = another.get("c1")
            assert found is not None
            assert (found.revision, found.data) == (number + 2, {"number": number})

        with beside(write) as writes:
            rekeyed_while_it_is_written(store, writes)


def test_no_write_to_an_item_is_undone(items_config: Config) -> None:
    both = sealed(items_config, FIRST, SECOND)
    with ITEM_KIND.open(items_config, SECOND, FIRST) as store, ITEM_KIND.open(both) as other:

        def write(number: int) -> None:
            put = other.put(secret_item("k", data=b"%d" % number))
            found = other.get(("n",), "k")
            assert found == put
            assert found.data == b"%d" % number

        with beside(write) as writes:
            rekeyed_while_it_is_written(store, writes)


def test_what_no_key_opens_is_left_and_named(items_config: Config) -> None:
    with ITEM_KIND.open(items_config, "k3") as store:
        store.put(secret_item("a"))
    with ITEM_KIND.open(items_config, FIRST) as store:
        store.put(secret_item("b"))

    with ITEM_KIND.open(items_config, SECOND, FIRST) as store:
        found = list(rekeyed(store))
        assert [len(one.refused) for one in found] == [1, 1]
        assert "the item 'a' of ('n',) is encrypted with the key 'k3'" in found[0].refused[0]
        assert store.get(("n",), "b") is not None


def test_a_record_that_no_key_opens_is_left_and_named(messages_config: Config) -> None:
    with MESSAGE_KIND.open(messages_config, "k3") as store:
        store.store_conversation(secret_conversation("c3"))

    with MESSAGE_KIND.open(messages_config, SECOND, FIRST) as store:
        [found] = rekeyed(store)
    [refused] = found.refused
    assert "conversation 'c3' is encrypted with the key 'k3'" in refused
    with MESSAGE_KIND.open(messages_config, "k3") as store:
        assert store.get_conversation_by_id("c3") == secret_conversation("c3")


# The command line


@pytest.fixture
def urls(tmp_path: Path) -> list[str]:
    """The options for three stores in one file, sealed with the first key."""
    path = str(tmp_path / "agent.db")
    config: Config = {"storage": "sqlite", "path": path, "encryption": keyring(FIRST)}
    for kind in (MESSAGE_KIND, STATE_KIND, ITEM_KIND):
        with kind.open(config) as store:
            kind.fill(store)
    with ITEM_KIND.open(config) as items:
        items.put(secret_item("expired", expires_at=1))
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
    with closing(sqlite3.connect(urls[1].removeprefix("sqlite:"))) as file:
        assert file.execute("SELECT count(*) FROM stored_items").fetchone() == (120,)
    again = objects(run("rekey", "--json", *urls, env=keys).output)
    assert again[1] == {"kind": "messages", "encrypted": 0, "before": 120, "refused": 0}


def test_the_command_needs_keys(urls: list[str]) -> None:
    ran = run("rekey", *urls)
    assert (ran.status, "there are no keys: set JAZZMINE_ENCRYPTION" in ran.errors) == (1, True)


def test_values_that_are_all_refused_are_not_all_named(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'm.db'}"
    with MessageStore.initialize(url) as store:
        for number in range(50):
            chat = secret_conversation().model_copy(update={"id": f"c{number}"})
            store.store_conversation(chat)

    ran = run("rekey", "--store", url, env={"JAZZMINE_ENCRYPTION": as_text(FIRST)})

    assert "50 values" in ran.errors
    assert ran.errors.count("\n") == 21


def test_doctor_refuses_another_key_with_the_same_id(urls: list[str]) -> None:
    mistyped = as_text(SECOND).replace("k2:", "k1:")
    other = run("doctor", *urls, env={"JAZZMINE_ENCRYPTION": mistyped})
    assert other.output.count("the key 'k1' opens nothing") == 3  # of each kind of store
    assert other.status == 1


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
