"""Stores with keys, without keys, with other keys, and what is plain in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from jazzmine import ConfigurationError, Conversation, MemoryItem
from jazzmine._sync.long_term_memory import encrypted
from jazzmine.encryption import Keyring
from jazzmine.errors import ConflictError, DecryptionError, NotFoundError
from jazzmine.records.usage import TraceFilter
from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore
from jazzmine.sync.maintenance import make_search
from tests.behaviour.backends import Config
from tests.encryption.keys import (
    FIRST,
    SECOND,
    STATES,
    WORD,
    Kind,
    keyring,
    sealed,
    secret_conversation,
    secret_message,
)

# The options with which none of what the first key has sealed can be read, and the error's text.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no keys": ({}, "encrypted with the key 'k1', and this store was opened without keys"),
    "another key": ({"encryption": keyring(SECOND)}, "encrypted with the key 'k1'; .* has 'k2'"),
}
# The calls that need what is encrypted, and one that does not.
CALLS: dict[Any, tuple[list[Callable[[Any], object]], Callable[[Any], bool]]] = {
    MessageStore: (
        [
            lambda store: store.get_conversation_by_id("c1"),
            lambda store: store.get_message_by_id("m1"),
            lambda store: store.get_messages_by_conversation_id("c1"),
            lambda store: store.get_immediate_context("c1", 1),
            lambda store: store.pop_message("c1"),
            lambda store: list(store.iter_messages("c1")),
            lambda store: store.edit_conversation("c1", title="new"),
            lambda store: store.edit_message("m1", metadata={"a": 1}),
        ],
        lambda store: store.flag_message("m1", False),
    ),
    WorkingMemoryStore: (
        [
            lambda memory: memory.get("c1"),
            lambda memory: memory.get_or_create("c1", "ann", "desk"),
            lambda memory: memory.end_turn("c1", "Hello", "greet"),
        ],
        lambda memory: memory.active_count() == STATES,
    ),
    LongTermMemoryStore: (
        [
            lambda items: items.get(("n",), "k1"),
            lambda items: items.list_items(),
            lambda items: items.search_items(WORD),
        ],
        lambda items: items.list_namespaces() == [("n",)],
    ),
}


@pytest.mark.every_combination
@pytest.mark.parametrize("options", REFUSED)
def test_nothing_is_read_without_its_key_and_nothing_is_lost(
    stored: tuple[Kind, Config], options: str
) -> None:
    kind, config = stored
    given, text = REFUSED[options]
    calls, other = CALLS[kind.store]
    with kind.open(config, FIRST) as store:
        kind.fill(store)
        before = kind.read(store)

    with kind.store.initialize({**config, **given}) as store:
        for call in calls:
            with pytest.raises(DecryptionError, match=text) as raised:
                call(store)
            assert WORD not in str(raised.value)
        assert other(store)
    with kind.open(config, FIRST) as store:
        assert kind.read(store) == before


def test_another_key_with_a_known_id_is_refused(stored: tuple[Kind, Config]) -> None:
    kind, config = stored
    wrong = {**config, "encryption": Keyring({FIRST: b"\x07" * 32})}
    with kind.open(wrong):
        pass  # nothing is stored yet
    with kind.open(config, FIRST) as store:
        kind.fill(store)
        before = kind.read(store)

    with pytest.raises(ConfigurationError, match="the key 'k1' opens nothing") as raised:
        kind.open(wrong)
    assert WORD not in str(raised.value)
    with kind.open(config, FIRST) as store:
        assert kind.read(store) == before


def test_plain_messages_are_read_if_the_store_accepts_them(messages_config: Config) -> None:
    with MessageStore.initialize(messages_config) as store:
        store.store_conversation(secret_conversation())
        store.store_message(secret_message())

    with (
        MessageStore.initialize(sealed(messages_config)) as store,
        pytest.raises(DecryptionError, match="'m1' is not encrypted, in an encrypted store"),
    ):
        store.get_message_by_id("m1")
    accepting = {**sealed(messages_config), "encryption_accepts_plain": True}
    with MessageStore.initialize(accepting) as store:
        assert store.get_message_by_id("m1") == secret_message()


def test_what_is_sealed_is_not_searched_by(messages_config: Config) -> None:
    with MessageStore.initialize(sealed(messages_config)) as store:
        for call in (
            lambda: store.find_turn_traces(TraceFilter(tool={"error": "x"})),
            lambda: store.search_messages("word"),
            lambda: make_search(store, ""),
        ):
            with pytest.raises(ConfigurationError):
                call()
    with pytest.raises(ConfigurationError, match="search and encryption exclude each other"):
        MessageStore.initialize({**sealed(messages_config), "search": True})
    with MessageStore.initialize(messages_config) as store:
        make_search(store, "")
    with pytest.raises(ConfigurationError, match="search and encryption exclude each other"):
        MessageStore.initialize(sealed(messages_config))
    with MessageStore.initialize(messages_config) as store:
        make_search(store, None)  # other tests get the same place


def test_a_sealed_conversation_is_copied_as_a_plain_one(messages_config: Config) -> None:
    with MessageStore.initialize(sealed(messages_config)) as store:
        with pytest.raises(NotFoundError, match="'c1' is not stored"):
            store.fork_conversation("c1", secret_conversation("c2"))
        store.store_conversation(secret_conversation())
        assert store.fork_conversation("c1", secret_conversation("c2")) == {}
        store.store_messages([secret_message("m1"), secret_message("m2")])

        new_ids = store.fork_conversation("c1", secret_conversation("c3"), until="m1")

        assert list(new_ids) == ["m1"]
        assert store.fork_conversation("c1", secret_conversation("c3"), until="m1") == new_ids
        assert [one.id for one in store.get_messages_by_conversation_id("c3")] == [
            *new_ids.values()
        ]
        with pytest.raises(ConflictError, match="fork to a new one"):
            store.fork_conversation("c1", secret_conversation("c3"), until="m2")
        with pytest.raises(NotFoundError, match="'m3' is no message"):
            store.fork_conversation("c1", secret_conversation("c4"), until="m3")


def test_conversations_are_found_by_their_sealed_metadata(messages_config: Config) -> None:
    with MessageStore.initialize(sealed(messages_config)) as store:
        for number in range(7):
            metadata = {"even": number % 2 == 0, "number": number}
            store.store_conversation(
                Conversation(
                    id=f"c{number}",
                    user_id="ann",
                    agent_id="desk",
                    metadata=metadata,
                    created_at=number,
                    last_updated_at=number,
                )
            )
        found = store.get_conversations(where={"even": True})
        page = store.get_conversations_by_user_id("ann", where={"even": True}, limit=2)
        rest = store.get_conversations(where={"even": True}, after=page[-1].id)
        none = store.get_conversations(where={"even": 1})
        with pytest.raises(NotFoundError):
            store.get_conversations(where={"even": True}, after="unknown")

    assert [one.id for one in found] == ["c6", "c4", "c2", "c0"]
    assert found == [*page, *rest]
    assert none == []


def test_items_are_found_by_their_sealed_values(items_config: Config) -> None:
    with LongTermMemoryStore.initialize(
        sealed(items_config), embed=lambda texts: [[3, 4]] * len(texts)
    ) as items:
        for number in range(7):
            value = {"even": number % 2 == 0, "text": f"{WORD} {number}"}
            items.put(MemoryItem(namespace=("n",), key=f"k{number}", value=value))
        items.delete(("n",), "k6")
        with patch.multiple(encrypted, _READ_AT_ONCE=2, _FEW=1):
            found = items.list_items(("n",), where={"even": True})
            page = items.list_items(("n",), where={"even": True}, limit=2)
            searched = items.search_items(WORD, prefix=("n",), where={"even": False}, by="words")
            nearest = items.search_items("near", where={"even": False}, by="vectors")

    assert [one.key for one in found] == ["k0", "k2", "k4"]
    assert page == found[:2]
    assert {one.item.key for one in searched} == {"k1", "k3", "k5"}
    assert {one.item.key for one in nearest} == {"k1", "k3", "k5"}
