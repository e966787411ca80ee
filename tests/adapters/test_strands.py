"""Sessions and agents of Strands Agents, as its own tests expect of its own stores, and more."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionType

from jazzmine.adapters.strands import JazzmineSessionRepository
from jazzmine.core import MessageStore as AsyncMessageStore
from jazzmine.sync import MessageStore
from tests.adapters.scripted_strands import agent, said, state


def test_a_session_comes_back_equal(repository: JazzmineSessionRepository) -> None:
    session = Session(session_id="s1", session_type=SessionType.AGENT)

    assert repository.create_session(session) == session
    assert repository.read_session("s1") == session


def test_what_is_missing_is_none(repository: JazzmineSessionRepository, session: Session) -> None:
    assert repository.read_session("other") is None
    assert repository.read_agent("s1", "other") is None
    assert repository.read_agent("other", "guide") is None
    assert repository.read_message("s1", "guide", 999) is None
    assert repository.read_message("s1", "other", 0) is None
    assert repository.read_multi_agent("s1", "other") is None
    assert repository.list_messages("s1", "guide") == []


def test_of_creations_at_once_one_succeeds(repository: JazzmineSessionRepository) -> None:
    def create(number: int) -> bool:
        try:
            repository.create_session(Session(session_id="s1", session_type=SessionType.AGENT))
        except SessionException:
            return False
        return True

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(create, range(6))) == 1


def test_a_deleted_session_leaves_nothing(
    repository: JazzmineSessionRepository, session: Session, sync_store: MessageStore
) -> None:
    repository.create_message("s1", "guide", said("secret", 0))

    repository.delete_session("s1")

    assert repository.read_session("s1") is None
    assert repository.read_agent("s1", "guide") is None
    assert repository.list_messages("s1", "guide") == []
    assert sync_store.get_conversations_by_user_id("u1") == []
    with pytest.raises(SessionException, match="does not exist"):
        repository.delete_session("s1")


@pytest.mark.parametrize("missing", [["s1"], ["s1/guide"], ["s1", "s1/guide"]], ids=str)
def test_a_session_goes_on_after_a_part_of_it_was_deleted(
    repository: JazzmineSessionRepository, sync_store: MessageStore, missing: list[str]
) -> None:
    guide, _ = agent(repository)
    guide("Rain?")
    for conversation_id in missing:
        assert sync_store.delete_conversation(conversation_id)

    again, model = agent(repository)
    again("And now?")

    kept = [] if "s1/guide" in missing else guide.messages
    assert [one["role"] for one in model.inputs[0]] == [one["role"] for one in kept] + ["user"]
    assert repository.read_session("s1") is not None
    assert len(repository.list_messages("s1", "guide")) == len(kept) + 4


@pytest.mark.parametrize("steps", range(4))
def test_a_deletion_that_did_not_end_is_repeated(
    repository: JazzmineSessionRepository,
    sync_store: MessageStore,
    monkeypatch: pytest.MonkeyPatch,
    steps: int,
) -> None:
    agent(repository)
    repository.create_agent("s1", state("other"))
    deleted: list[str] = []

    def delete(conversation_id: str) -> bool:
        if len(deleted) == steps:
            raise OSError("killed")
        deleted.append(conversation_id)
        return MessageStore.delete_conversation(sync_store, conversation_id)

    with monkeypatch.context() as patch:
        patch.setattr(sync_store, "delete_conversation", delete)
        with contextlib.suppress(OSError):
            repository.delete_session("s1")

    if steps < 3:
        agent(repository)[0]("Rain?")
        repository.delete_session("s1")
    assert sync_store.get_conversations_by_user_id("u1") == []


@pytest.mark.parametrize("bad", ["a/../b", "a/b", "a\\b"])
def test_ids_with_separators_are_a_value_error(
    repository: JazzmineSessionRepository, bad: str
) -> None:
    with pytest.raises(ValueError, match="path separators"):
        repository.read_session(bad)
    with pytest.raises(ValueError, match="path separators"):
        repository.read_agent("s1", bad)
    with pytest.raises(ValueError, match="path separators"):
        repository.read_multi_agent("s1", bad)


@pytest.mark.parametrize("missing", ["", None])
def test_missing_ids_are_a_value_error(
    repository: JazzmineSessionRepository, sync_store: MessageStore, missing: Any
) -> None:
    with pytest.raises(ValueError, match="session_id is missing"):
        repository.read_session(missing)
    with pytest.raises(ValueError, match="session_id is missing"):
        repository.recorder(missing)
    with pytest.raises(ValueError, match="agent_id is missing"):
        repository.read_agent("s1", missing)
    with pytest.raises(ValueError, match="user_id is missing"):
        JazzmineSessionRepository(sync_store, user_id=missing, agent_id="a1")


def test_an_async_store_is_a_type_error(store: AsyncMessageStore) -> None:
    with pytest.raises(TypeError, match=r"jazzmine\.sync"):
        JazzmineSessionRepository(store, user_id="u1", agent_id="a1")  # type: ignore[arg-type]


# Agents


def test_an_updated_agent_keeps_its_time_of_creation(
    repository: JazzmineSessionRepository, session: Session
) -> None:
    before = repository.read_agent("s1", "guide")
    assert before is not None
    new = state(mood="good")
    new.created_at = "later"
    repository.update_agent("s1", new)

    after = repository.read_agent("s1", "guide")
    assert after is not None
    assert after.state == {"mood": "good"}
    assert after.created_at == new.created_at == before.created_at


def test_updates_of_what_is_missing_raise(
    repository: JazzmineSessionRepository, session: Session
) -> None:
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_agent("s1", state("other"))
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_message("s1", "guide", said("one", 0))
    with pytest.raises(SessionException, match="does not exist"):
        repository.create_agent("other", state())
    with pytest.raises(SessionException, match="does not exist"):
        repository.create_message("s1", "other", said("one", 0))
