"""Messages of Strands Agents, as its own tests expect of its own stores, and more."""

from __future__ import annotations

from typing import Any

import pytest
from strands.types.session import Session, SessionMessage, SessionType

from jazzmine import Message, MessageRole
from jazzmine.adapters.strands import JazzmineSessionRepository
from jazzmine.sync import MessageStore
from tests.adapters.scripted_strands import ids, said, state


def test_messages_are_listed_from_the_oldest(
    repository: JazzmineSessionRepository, session: Session
) -> None:
    for index in range(10):
        repository.create_message("s1", "guide", said(str(index), index))

    def listed(**page: Any) -> list[int]:
        return ids(repository.list_messages("s1", "guide", **page))

    assert listed() == list(range(10))
    assert listed(limit=3) == [0, 1, 2]
    assert listed(offset=5) == [5, 6, 7, 8, 9]
    assert listed(limit=2, offset=7) == [7, 8]
    assert listed(limit=0) == []
    assert listed(offset=20) == []


def test_message_ids_are_those_of_an_agent_of_a_session(
    repository: JazzmineSessionRepository, session: Session
) -> None:
    repository.create_agent("s1", state("other"))
    repository.create_session(Session(session_id="s2", session_type=SessionType.AGENT))
    repository.create_agent("s2", state())
    places = [("s1", "guide"), ("s1", "other"), ("s2", "guide")]
    for place in places:
        repository.create_message(*place, said("-".join(place), 0))

    for place in places:
        message = repository.read_message(*place, 0)
        assert message is not None
        assert message.message["content"] == [{"text": "-".join(place)}]


@pytest.mark.parametrize("bad", ["../../secret", "not_an_int", None, []])
def test_a_message_id_is_an_integer(
    repository: JazzmineSessionRepository, session: Session, bad: Any
) -> None:
    with pytest.raises(ValueError, match="message id must be an integer"):
        repository.read_message("s1", "guide", bad)


def test_a_message_id_in_use_is_replaced_by_the_next(
    repository: JazzmineSessionRepository, session: Session
) -> None:
    late = said("late", 0)
    repository.create_message("s1", "guide", said("one", 0))
    repository.create_message("s1", "guide", late)

    assert late.message_id == 1
    assert [
        one.message["content"][0]["text"] for one in repository.list_messages("s1", "guide")
    ] == [
        "one",
        "late",
    ]


def test_a_redacted_message_is_read_redacted(
    repository: JazzmineSessionRepository, session: Session, sync_store: MessageStore
) -> None:
    repository.create_message("s1", "guide", said("secret", 0))
    message = repository.read_message("s1", "guide", 0)
    assert message is not None
    created_at, message.created_at = message.created_at, "later"
    message.redact_message = {"role": "user", "content": [{"text": "[redacted]"}]}
    repository.update_message("s1", "guide", message)

    found = repository.read_message("s1", "guide", 0)
    assert found == message
    assert found.created_at == created_at
    assert found.message["content"] == [{"text": "secret"}]
    assert found.to_message()["content"] == [{"text": "[redacted]"}]
    (shown,) = sync_store.get_immediate_context("s1/guide", 5)
    assert shown.original_content == "[redacted]"


def test_a_person_can_read_every_kind_of_block(
    repository: JazzmineSessionRepository, session: Session, sync_store: MessageStore
) -> None:
    thought = {"reasoningContent": {"reasoningText": {"text": "Hm."}}}
    returned = {"toolResult": {"toolUseId": "t", "content": [{"json": {"a": 1}}]}}
    blocks: Any = [{"text": "Look:"}, thought, {"image": {"format": "png"}}, returned]
    new = SessionMessage.from_message({"role": "user", "content": blocks}, 0)
    repository.create_message("s1", "guide", new)

    (shown,) = sync_store.get_immediate_context("s1/guide", 5)
    assert shown.original_content == 'Look:\nHm.\n[image]\n{"a":1}'


# Numbers of messages


def texts(repository: JazzmineSessionRepository) -> list[str]:
    found = repository.list_messages("s1", "guide")
    assert [one.message_id for one in found] == sorted({one.message_id for one in found})
    return [one.message["content"][0]["text"] for one in found]


@pytest.mark.parametrize("deleted", [[1], [3], [1, 2], [0, 1, 2, 3]], ids=str)
@pytest.mark.parametrize("stale", [1, 2, 4, 9])
def test_a_message_of_a_stale_worker_is_the_last_after_a_deletion(
    repository: JazzmineSessionRepository,
    session: Session,
    sync_store: MessageStore,
    deleted: list[int],
    stale: int,
) -> None:
    for number in range(4):
        repository.create_message("s1", "guide", said(f"{number}", number))
    for number in deleted:
        sync_store.delete_message(f"s1/guide/{number}")

    repository.create_message("s1", "guide", said("stale", stale))
    repository.create_message("s1", "guide", said("late", 4))

    kept = [f"{number}" for number in range(4) if number not in deleted]
    assert texts(repository) == [*kept, "stale", "late"]


def test_a_message_of_a_stale_worker_is_the_last_of_a_new_session(
    repository: JazzmineSessionRepository, session: Session
) -> None:
    for number in range(4):
        repository.create_message("s1", "guide", said(f"{number}", number))
    repository.delete_session("s1")
    repository.create_session(session)
    repository.create_agent("s1", state())
    repository.create_message("s1", "guide", said("new", 0))

    for number, text in ((4, "stale"), (1, "next"), (2, "last")):
        repository.create_message("s1", "guide", said(text, number))

    assert texts(repository) == ["new", "stale", "next", "last"]


def test_messages_of_other_programs_and_flags_do_not_end_an_agent(
    repository: JazzmineSessionRepository, session: Session, sync_store: MessageStore
) -> None:
    repository.create_message("s1", "guide", said("one", 0))
    note = Message(
        conversation_id="s1/guide", user_id="u1", role=MessageRole.SYSTEM, original_content="!"
    )
    sync_store.append_messages("s1/guide", [note])
    repository.create_message("s1", "guide", said("two", 1))
    sync_store.flag_message("s1/guide/1")
    repository.create_message("s1", "guide", said("three", 1))

    assert texts(repository) == ["one", "three"]
