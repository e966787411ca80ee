"""No word of what people and tools say is readable where it is stored."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore
from tests.behaviour.backends import Config
from tests.behaviour.stored import everything
from tests.encryption.keys import (
    FIRST,
    WORD,
    Kind,
    forms,
    sealed,
    secret_conversation,
    secret_item,
    secret_message,
    secret_trace,
)


def found_in(config: Config, word: str = WORD) -> set[bytes]:
    stored = everything(config)
    return {form for form in forms(word) if form in stored}


def talk(store: MessageStore) -> None:
    store.store_turn(messages=[secret_message("a"), secret_message("b")], trace=secret_trace("a"))
    store.store_message(secret_message("a", intent="another"))
    store.append_messages("c1", [secret_message("c", is_flagged=False)])
    store.edit_conversation("c1", title=f"{WORD} 2", metadata={WORD: WORD})
    store.fork_conversation("c1", secret_conversation("c2"))
    store.pop_message("c1")


def think(memory: WorkingMemoryStore) -> None:
    memory.set_data("c1", **{WORD: WORD})
    with memory.locked("c1") as state:
        state.end_turn(WORD, WORD, WORD)


def keep(items: LongTermMemoryStore) -> None:
    items.put(secret_item("k", data=None))
    items.put(secret_item("k0", value={"again": WORD}))


WRITES: dict[Any, Callable[[Any], None]] = {
    MessageStore: talk,
    WorkingMemoryStore: think,
    LongTermMemoryStore: keep,
}


def test_no_word_is_readable(stored: tuple[Kind, Config]) -> None:
    kind, config = stored
    with kind.open(config, FIRST) as store:
        kind.fill(store)
        WRITES[kind.store](store)
        assert not found_in(config)  # in the -wal file, too
        assert not found_in(config, "last_agent_response")
        assert WORD in repr(kind.read(store))
    assert not found_in(config)


def test_the_search_finds_words_where_nothing_is_sealed(stored: tuple[Kind, Config]) -> None:
    kind, config = stored
    with kind.open(config) as store:
        kind.fill(store)

    assert found_in(config)


def test_no_vector_is_readable(items_config: Config) -> None:
    vector = struct.pack("<2f", 0.6, 0.8)
    for config in (items_config, sealed(items_config)):
        with LongTermMemoryStore.initialize(
            config, embed=lambda texts: [[3, 4]] * len(texts)
        ) as one:
            one.erase_user("ann")
            one.put(secret_item(user_id="ann"))
        stored = everything(items_config)
        readable = (
            vector in stored
            or vector.hex().encode() in stored
            or repr(vector)[2:-1].encode() in stored
        )
        assert readable is ("encryption" not in config)
