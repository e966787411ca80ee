"""No word of what people and tools say is readable where it is stored."""

from __future__ import annotations

import struct

from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore
from tests.behaviour.backends import Config
from tests.behaviour.stored import everything
from tests.encryption.keys import (
    WORD,
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
    store.store_conversation(secret_conversation())
    store.store_turn(messages=[secret_message("m1"), secret_message("m2")], trace=secret_trace())
    store.store_message(secret_message("m1", intent="another"))
    store.append_messages("c1", [secret_message("m3", is_flagged=False)])
    store.edit_conversation("c1", title=f"{WORD} 2", metadata={WORD: WORD})
    store.fork_conversation("c1", secret_conversation("c2"))
    store.pop_message("c1")


def think(memory: WorkingMemoryStore) -> None:
    memory.get_or_create("c1", "ann", "desk")
    memory.end_turn("c1", WORD, WORD, WORD)
    memory.set_data("c1", **{WORD: WORD})
    with memory.locked("c1") as state:
        state.end_turn(WORD, WORD, WORD)


def keep(items: LongTermMemoryStore) -> None:
    items.put(secret_item("k1"))
    items.put(secret_item("k2", data=None))
    items.put(secret_item("k1", value={"again": WORD}))


def test_no_word_of_messages_is_readable(messages_config: Config) -> None:
    with MessageStore.initialize(sealed(messages_config)) as store:
        talk(store)
        assert not found_in(messages_config)  # the -wal file, too

        assert store.get_messages_by_ids(["m2"]) == [secret_message("m2")]
        assert store.get_turn_trace_by_message_id("m1") == secret_trace()
        found = store.get_conversation_by_id("c1")
        assert found is not None
        assert (found.title, found.metadata) == (f"{WORD} 2", {WORD: WORD})
    assert not found_in(messages_config)


def test_no_word_of_a_working_memory_is_readable(memory_config: Config) -> None:
    with WorkingMemoryStore.initialize(sealed(memory_config)) as memory:
        think(memory)
        assert not found_in(memory_config)
        assert not found_in(memory_config, "last_agent_response")
        state = memory.get("c1")
    assert state is not None
    assert (state.last_agent_response, state.data) == (WORD, {WORD: WORD})
    assert not found_in(memory_config)


def test_no_word_of_an_item_is_readable(items_config: Config) -> None:
    with LongTermMemoryStore.initialize(
        sealed(items_config), embed=lambda texts: [[0.25, 0.5]] * len(texts)
    ) as items:
        keep(items)
        assert not found_in(items_config)

        found = items.get(("n",), "k1")
        assert found is not None
        assert (found.value, found.data) == ({"again": WORD}, WORD.encode())
        assert [one.item.key for one in items.search_items(WORD)] == ["k1", "k2"]
    assert not found_in(items_config)


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


def test_the_search_finds_words_where_nothing_is_sealed(
    messages_config: Config, memory_config: Config, items_config: Config
) -> None:
    with MessageStore.initialize(messages_config) as store:
        talk(store)
    with WorkingMemoryStore.initialize(memory_config) as memory:
        think(memory)
    with LongTermMemoryStore.initialize(items_config) as items:
        keep(items)

    assert found_in(messages_config)
    assert found_in(memory_config)
    assert found_in(items_config)
