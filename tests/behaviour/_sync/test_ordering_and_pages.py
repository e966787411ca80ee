"""Messages keep their order, and pages are correct if messages change between them."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine import NotFoundError
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.backends import Config
from tests.behaviour.samples import NOW, conversation, ids, message, messages

each_listing = pytest.mark.parametrize("listing", ["conversation", "user"])


def listed(store: MessageStore, listing: str, **page: Any) -> list[str]:
    """Return the ids of the messages of conversation "c1", or of user "u1"."""
    method = getattr(store, f"get_messages_by_{listing}_id")
    return ids(method({"conversation": "c1", "user": "u1"}[listing], **page))


# Order


@each_listing
def test_messages_are_listed_oldest_first(chat: MessageStore, listing: str) -> None:
    chat.store_message(message("third", timestamp=NOW + 2))
    chat.store_message(message("first", timestamp=-NOW))
    chat.store_message(message("second", timestamp=NOW + 1))

    assert listed(chat, listing) == ["first", "second", "third"]


@each_listing
def test_equally_old_messages_are_listed_in_the_order_they_were_stored(
    chat: MessageStore, listing: str
) -> None:
    chat.store_message(message("c"))
    chat.store_messages(messages("a", "d"))
    chat.store_turn(messages=messages("b"))

    assert listed(chat, listing) == ["c", "a", "d", "b"]


@pytest.mark.each_value
@pytest.mark.smoke
@each_listing
@pytest.mark.parametrize("write", ["store_message", "update_message"])
def test_storing_a_message_again_does_not_move_it_among_equals(
    chat: MessageStore, listing: str, write: str
) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))

    getattr(chat, write)(message("m1", original_content="other words"))

    assert listed(chat, listing) == ["m1", "m2", "m3"]


@each_listing
def test_storing_several_again_does_not_move_them_among_equals(
    chat: MessageStore, listing: str
) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))

    chat.store_messages(messages("m4", "m3", "m1", intent="changed"))

    assert listed(chat, listing) == ["m1", "m2", "m3", "m4"]


@each_listing
def test_storing_a_turn_again_does_not_move_its_messages(
    chat: MessageStore, listing: str
) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))

    chat.store_turn(conversation=conversation(), messages=messages("m2", "m1"))

    assert listed(chat, listing) == ["m1", "m2", "m3"]


@each_listing
def test_a_changed_timestamp_moves_a_message(chat: MessageStore, listing: str) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))

    chat.update_message(message("m1", timestamp=NOW + 1))

    assert listed(chat, listing) == ["m2", "m3", "m1"]


@each_listing
def test_a_timestamp_that_is_changed_back_restores_the_order(
    chat: MessageStore, listing: str
) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))

    chat.update_message(message("m2", timestamp=NOW + 1))
    chat.update_message(message("m2", timestamp=NOW))

    assert listed(chat, listing) == ["m1", "m2", "m3"]


@each_listing
def test_a_message_that_becomes_equally_old_keeps_its_first_order(
    chat: MessageStore, listing: str
) -> None:
    chat.store_message(message("m1", timestamp=NOW + 5))
    chat.store_messages(messages("m2", "m3"))

    chat.update_message(message("m1", timestamp=NOW))

    assert listed(chat, listing) == ["m1", "m2", "m3"]


@each_listing
def test_a_message_deleted_and_stored_again_is_the_last_among_equals(
    chat: MessageStore, listing: str
) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))

    chat.delete_message("m1")
    chat.store_message(message("m1"))

    assert listed(chat, listing) == ["m2", "m3", "m1"]


@each_listing
def test_the_order_among_equals_outlives_the_store(config: Config, listing: str) -> None:
    with MessageStore.initialize(config) as store:
        store.store_turn(conversation=conversation(), messages=messages("c", "a", "b"))
        store.store_message(message("c", intent="changed"))

    with MessageStore.initialize(config) as reopened:
        reopened.store_messages(messages("d", "a"))

        assert listed(reopened, listing) == ["c", "a", "b", "d"]


@pytest.mark.smoke
@each_listing
def test_the_order_among_equals_is_the_same_for_all_stores_on_the_same_data(
    chat: MessageStore, config: Config, listing: str
) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))

    with MessageStore.initialize(config) as other:
        other.delete_message("m1")
        other.store_message(message("m1"))
        chat.store_message(message("m4"))

        assert listed(chat, listing) == ["m2", "m3", "m1", "m4"]
        assert listed(other, listing) == ["m2", "m3", "m1", "m4"]
    with MessageStore.initialize(config) as reopened:
        assert listed(reopened, listing) == ["m2", "m3", "m1", "m4"]


def test_the_extremes_of_time_are_in_order(chat: MessageStore) -> None:
    chat.store_message(message("end", timestamp=2**63 - 1))
    chat.store_message(message("epoch", timestamp=0))
    chat.store_message(message("beginning", timestamp=-(2**63)))

    assert listed(chat, "conversation") == ["beginning", "epoch", "end"]
    assert listed(chat, "conversation", after="beginning", limit=1) == ["epoch"]
    assert ids(chat.get_immediate_context("c1", 1)) == ["end"]


def test_a_users_messages_are_in_order_across_conversations(chat: MessageStore) -> None:
    chat.store_conversation(conversation("c2"))
    chat.store_message(message("m1", timestamp=NOW + 1))
    chat.store_message(message("m2", conversation_id="c2"))
    chat.store_message(message("m3"))
    chat.store_message(message("other", user_id="u2"))

    assert listed(chat, "user") == ["m2", "m3", "m1"]


# Pages


@pytest.mark.each_value
@pytest.mark.smoke
@each_listing
def test_pages_add_up_to_the_listing(chat: MessageStore, listing: str) -> None:
    chat.store_messages(messages("m2", "m3", "m4"))
    chat.store_messages([message("m1", timestamp=NOW - 1), message("m5", timestamp=NOW + 1)])

    assert listed(chat, listing, limit=2) == ["m1", "m2"]
    assert listed(chat, listing, limit=2, after="m2") == ["m3", "m4"]
    assert listed(chat, listing, limit=2, after="m4") == ["m5"]
    assert listed(chat, listing, limit=2, after="m5") == []


@each_listing
def test_a_page_without_a_limit_goes_to_the_end(chat: MessageStore, listing: str) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))

    assert listed(chat, listing, after="m1") == ["m2", "m3"]
    assert listed(chat, listing, limit=None, after=None) == ["m1", "m2", "m3"]


@each_listing
def test_a_limit_beyond_the_end_is_all_there_is(chat: MessageStore, listing: str) -> None:
    chat.store_messages(messages("m1", "m2"))

    assert listed(chat, listing, limit=3) == ["m1", "m2"]


@each_listing
def test_a_page_of_none_is_empty(chat: MessageStore, listing: str) -> None:
    chat.store_messages(messages("m1", "m2"))

    assert listed(chat, listing, limit=0) == []
    assert listed(chat, listing, limit=0, after="m1") == []


@each_listing
def test_the_listing_of_an_unknown_user_is_empty(store: MessageStore, listing: str) -> None:
    assert listed(store, listing) == []
    assert listed(store, listing, limit=5) == []


@each_listing
def test_the_next_page_is_right_after_records_were_added(
    chat: MessageStore, listing: str
) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))
    assert listed(chat, listing, limit=2) == ["m1", "m2"]

    chat.store_message(message("earlier", timestamp=NOW - 1))
    chat.store_message(message("equal"))

    assert listed(chat, listing, limit=2, after="m2") == ["m3", "equal"]


@each_listing
def test_the_next_page_is_right_after_records_were_changed(
    chat: MessageStore, listing: str
) -> None:
    chat.store_messages(messages("m1", "m2", "m3", "m4"))
    assert listed(chat, listing, limit=2) == ["m1", "m2"]

    chat.store_message(message("m2", original_content="other words"))
    chat.store_message(message("m3", timestamp=NOW + 1))

    assert listed(chat, listing, limit=2, after="m2") == ["m4", "m3"]


@each_listing
def test_the_next_page_is_right_after_records_were_deleted(
    chat: MessageStore, listing: str
) -> None:
    chat.store_messages(messages("m1", "m2", "m3", "m4"))
    assert listed(chat, listing, limit=2) == ["m1", "m2"]

    chat.delete_message("m1")
    chat.delete_message("m3")

    assert listed(chat, listing, limit=2, after="m2") == ["m4"]


@each_listing
def test_the_next_page_starts_after_the_last_record_in_its_current_order(
    chat: MessageStore, listing: str
) -> None:
    chat.store_messages(messages("m1", "m2", "m3"))
    assert listed(chat, listing, limit=1) == ["m1"]

    chat.store_message(message("m1", timestamp=NOW + 1))
    chat.store_message(message("m4", timestamp=NOW + 2))

    assert listed(chat, listing, after="m1") == ["m4"]


@each_listing
def test_a_page_after_an_unknown_record_is_refused(chat: MessageStore, listing: str) -> None:
    chat.store_message(message("m1"))

    with pytest.raises(NotFoundError, match="lost"):
        listed(chat, listing, after="lost")


@each_listing
def test_a_page_after_a_deleted_record_is_refused(chat: MessageStore, listing: str) -> None:
    chat.store_messages(messages("m1", "gone", "m3"))
    chat.delete_message("gone")

    with pytest.raises(NotFoundError, match="gone"):
        listed(chat, listing, limit=1, after="gone")


@each_listing
def test_a_page_after_a_record_of_another_listing_is_refused(
    chat: MessageStore, listing: str
) -> None:
    chat.store_conversation(conversation("c2"))
    chat.store_message(message("m1"))
    chat.store_message(message("other", conversation_id="c2", user_id="u2"))

    with pytest.raises(NotFoundError, match="other"):
        listed(chat, listing, after="other")


@each_listing
def test_a_refused_page_is_a_key_error_that_reads_as_a_sentence(
    chat: MessageStore, listing: str
) -> None:
    with pytest.raises(KeyError) as caught:
        listed(chat, listing, after="lost")

    assert str(caught.value).startswith("after='lost' is")
