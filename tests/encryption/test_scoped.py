"""Encrypted stores that are scoped to a user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jazzmine import JazzmineError, MemoryItem, TraceFilter
from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore
from tests.behaviour.backends import Config
from tests.behaviour.samples import conversation, ids, message
from tests.behaviour.scope_samples import ABOUT, ABSENT, CONVERSATIONS, MESSAGES, OTHERS, TRACES
from tests.behaviour.stored import everything
from tests.encryption.keys import FIRST, SECOND, WORD, forms, keyring


def encrypted(config: Config) -> Config:
    return {**config, "encryption": keyring(FIRST)}


def is_readable(config: Config) -> bool:
    stored = everything(config)
    return any(form in stored for form in forms(WORD))


def outcome(call: Callable[..., Any], *args: Any) -> str:
    try:
        return repr(call(*args))
    except JazzmineError as error:
        return f"{type(error).__name__}: {error}"


def test_what_belongs_to_others_is_as_if_it_were_not_stored(messages_config: Config) -> None:
    with MessageStore.initialize(encrypted(messages_config)) as store:
        for record in CONVERSATIONS:
            store.store_conversation(record)
        store.store_messages(MESSAGES)
        for of_turn in TRACES:
            store.store_turn_trace(of_turn)
        own = store.scoped(user_id="u1")
        for name, call in ABOUT.items():
            found = {given.hidden(outcome(call, own, given)) for given in (ABSENT, *OTHERS)}
            assert len(found) == 1, name

        assert store.get_messages_by_ids(["m1", "m2", "m3", "m4"]) == MESSAGES
        assert ids(store.find_turn_traces(TraceFilter())) == ["t4", "t3", "t1"]


def test_what_a_user_says_is_sealed_and_read_by_that_user(messages_config: Config) -> None:
    with MessageStore.initialize(encrypted(messages_config)) as store:
        own = store.scoped(user_id="u1")
        own.store_conversation(conversation(title=WORD))
        own.append_messages("c1", [message(original_content=WORD)])
        own.edit_conversation("c1", metadata={WORD: WORD})

        assert own.get_immediate_context("c1", 1)[0].original_content == WORD
        assert ids(own.get_conversations(where={WORD: WORD})) == ["c1"]
        assert store.scoped(user_id="u2").get_conversations(where={WORD: WORD}) == []
    assert not is_readable(messages_config)


def test_a_working_memory_is_sealed_and_read_by_its_user(memory_config: Config) -> None:
    with WorkingMemoryStore.initialize(encrypted(memory_config)) as store:
        own, of_another = store.scoped(user_id="u1"), store.scoped(user_id="u2")
        own.get_or_create("c1", "u1", "a1")
        own.set_data("c1", word=WORD)

        found = own.get("c1")
        assert found is not None
        assert found.data == {"word": WORD}
        assert of_another.get("c1") is None
        assert not is_readable(memory_config)
        own.delete("c1")


def test_an_item_is_sealed_and_read_by_its_user(items_config: Config) -> None:
    with LongTermMemoryStore.initialize(encrypted(items_config)) as store:
        own, of_another = store.scoped(user_id="u1"), store.scoped(user_id="u2")
        own.put(MemoryItem(namespace=("facts",), key="k", value={"a": WORD}, user_id="u1"))

        found = own.get(("facts",), "k")
        assert found is not None
        assert found.value == {"a": WORD}
        assert of_another.get(("facts",), "k") is None
        assert not is_readable(items_config)


def test_what_is_of_others_is_not_decrypted_to_see_whose_it_is(messages_config: Config) -> None:
    with MessageStore.initialize({**messages_config, "encryption": keyring(SECOND)}) as store:
        store.store_conversation(CONVERSATIONS[1])
        store.store_messages(MESSAGES[2:])
        store.store_turn_trace(TRACES[1])
        store.store_turn_trace(TRACES[2])
    with MessageStore.initialize(encrypted(messages_config)) as store:
        own = store.scoped(user_id="u1")
        own.store_conversation(CONVERSATIONS[0])
        own.store_messages(MESSAGES[:2])

        # "m4" and "t4" name the user, in a conversation of another one.
        assert ids(own.get_messages_by_user_id("u1")) == ["m1"]
        assert own.find_turn_traces(TraceFilter()) == []
        for name, call in ABOUT.items():
            found = {given.hidden(outcome(call, own, given)) for given in (ABSENT, *OTHERS)}
            assert len(found) == 1, name
