"""Encrypted stores that are scoped to a user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jazzmine import JazzmineError, TraceFilter
from jazzmine.sync import MessageStore
from tests.behaviour.backends import Config
from tests.behaviour.samples import conversation, ids, message
from tests.behaviour.scope_samples import ABOUT, ABSENT, CONVERSATIONS, MESSAGES, OTHERS, TRACES
from tests.behaviour.stored import everything
from tests.encryption.keys import SECOND, WORD, forms, sealed


def is_readable(config: Config) -> bool:
    stored = everything(config)
    return any(form in stored for form in forms(WORD))


def outcome(call: Callable[..., Any], *args: Any) -> str:
    try:
        return repr(call(*args))
    except JazzmineError as error:
        return f"{type(error).__name__}: {error}"


def test_what_a_user_says_is_sealed_and_read_by_that_user(messages_config: Config) -> None:
    with MessageStore.initialize(sealed(messages_config)) as store:
        own = store.scoped(user_id="u1")
        own.store_conversation(conversation(title=WORD))
        own.append_messages("c1", [message(original_content=WORD)])
        own.edit_conversation("c1", metadata={WORD: WORD})

        assert own.get_immediate_context("c1", 1)[0].original_content == WORD
        assert ids(own.get_conversations(where={WORD: WORD})) == ["c1"]
        assert store.scoped(user_id="u2").get_conversations(where={WORD: WORD}) == []
    assert not is_readable(messages_config)


def test_what_is_of_others_is_not_decrypted_to_see_whose_it_is(messages_config: Config) -> None:
    with MessageStore.initialize(sealed(messages_config, SECOND)) as store:
        store.store_conversation(CONVERSATIONS[1])
        store.store_messages(MESSAGES[2:])
        store.store_turn_trace(TRACES[1])
        store.store_turn_trace(TRACES[2])
    with MessageStore.initialize(sealed(messages_config)) as store:
        own = store.scoped(user_id="u1")
        own.store_conversation(CONVERSATIONS[0])
        own.store_messages(MESSAGES[:2])

        # "m4" and "t4" name the user, in a conversation of another one.
        assert ids(own.get_messages_by_user_id("u1")) == ["m1"]
        assert own.find_turn_traces(TraceFilter()) == []
        for name, call in ABOUT.items():
            found = {given.hidden(outcome(call, own, given)) for given in (ABSENT, *OTHERS)}
            assert len(found) == 1, name
