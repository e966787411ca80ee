"""A store that is scoped to a user sees and changes what is in that user's conversations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from jazzmine import IntegrityError, ScopeError, StoreClosedError, TraceFilter
from jazzmine.core.message_store import MessageStore
from tests.behaviour.samples import conversation, ids, message
from tests.behaviour.scope_samples import (
    ABOUT,
    ABSENT,
    CONVERSATIONS,
    MESSAGES,
    OTHERS,
    STRANGER,
    TRACES,
    outcome,
)


@pytest.fixture
async def entangled(store: MessageStore) -> MessageStore:
    """A store with records of two users, some in each other's conversations."""
    for record in CONVERSATIONS:
        await store.store_conversation(record)
    await store.store_messages(MESSAGES)
    for of_turn in TRACES:
        await store.store_turn_trace(of_turn)
    return store


@pytest.fixture
async def own(entangled: MessageStore) -> AsyncIterator[MessageStore]:
    """The same store, scoped to the user "u1"."""
    async with entangled.scoped(user_id="u1") as scoped:
        yield scoped


async def everything(store: MessageStore) -> list[Any]:
    """Return all that is stored."""
    found = [await store.get_conversations(), await store.find_turn_traces(TraceFilter())]
    for owner in await store.get_conversations():
        found.append(await store.get_messages_by_conversation_id(owner.id))
    return found


@pytest.mark.smoke
async def test_what_belongs_to_others_is_as_if_it_were_not_stored(
    entangled: MessageStore, own: MessageStore
) -> None:
    before = await everything(entangled)
    for name, call in ABOUT.items():
        absent, *found = [
            given.hidden(repr(await outcome(call, own, given))) for given in (ABSENT, *OTHERS)
        ]

        assert set(found) == {absent}, name
        assert await everything(entangled) == before, name


async def test_another_user_as_an_argument_is_refused(
    entangled: MessageStore, own: MessageStore
) -> None:
    before = await everything(entangled)
    strangers = conversation("c3", user_id=STRANGER)
    of_stranger = TraceFilter(user_id=STRANGER)
    calls: list[Callable[[], Any]] = [
        lambda: own.store_conversation(strangers),
        lambda: own.update_conversation(strangers),
        lambda: own.get_or_create_conversation(strangers),
        lambda: own.store_turn(conversation=strangers),
        lambda: own.fork_conversation("c1", strangers),
        lambda: own.get_conversations_by_user_id(STRANGER),
        lambda: own.get_messages_by_user_id(STRANGER),
        lambda: own.find_turn_traces(of_stranger),
        lambda: own.summarize_usage(of_stranger, by="agent"),
        lambda: own.erase_user(STRANGER),
        lambda: own.move_user("u1", STRANGER),
        lambda: own.move_user(STRANGER, "u1"),
        lambda: own.prune_conversations(before=1, user_id=STRANGER),
        lambda: own.get_conversations_by_agent_id("a1", user_id=STRANGER),
    ]

    for call in calls:
        with pytest.raises(ScopeError):
            await call()
    assert await everything(entangled) == before


@pytest.mark.before_hooks
async def test_one_value_in_place_of_a_list_is_refused(own: MessageStore) -> None:
    with pytest.raises(TypeError, match="several ids, not one str"):
        await own.count_messages("c1")
    with pytest.raises(TypeError, match="not one role"):
        await own.search_messages("tea", roles="user")


async def test_a_scope_costs_nothing_and_closes_nothing(entangled: MessageStore) -> None:
    own = entangled.scoped(user_id="u1")
    same = own.scoped(user_id="u1")

    assert isinstance(own, MessageStore)
    with pytest.raises(ScopeError):
        own.scoped(user_id=STRANGER)
    await own.close()
    with pytest.raises(StoreClosedError):
        await own.get_conversations()
    assert ids(await same.get_conversations()) == ["c1"]
    await entangled.ping()


async def test_a_user_copies_deletes_and_erases_the_user_s_conversations_alone(
    entangled: MessageStore, own: MessageStore
) -> None:
    assert await own.get_turn_traces_by_agent_id("a1", limit=0) == []
    with pytest.raises(IntegrityError, match="its id is taken"):
        await own.fork_conversation("c1", conversation("c2"))
    await own.fork_conversation("c1", conversation("c5"))
    assert await own.delete_conversation("c5")
    await entangled.store_conversation(conversation("c5", user_id=STRANGER))
    assert await own.get_conversation_by_id("c5") is None

    erasure = await own.erase_user("u1")

    assert (erasure.conversations, erasure.messages, erasure.traces) == (1, 2, 1)
    assert sorted(ids(await entangled.get_conversations())) == ["c2", "c5"]
    assert ids(await entangled.get_messages_by_conversation_id("c2")) == ["m3", "m4"]


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("delete_conversation", {"conversation_id": "c1"}),
        ("erase_user", {"user_id": "u1"}),
        ("prune_conversations", {"before": 2**60}),
    ],
)
async def test_what_is_deleted_is_not_remembered(
    entangled: MessageStore, own: MessageStore, method: str, arguments: dict[str, Any]
) -> None:
    assert await own.get_conversation_by_id("c1") is not None
    await getattr(own, method)(**arguments)
    await entangled.store_conversation(conversation("c1", user_id="u2"))

    assert await own.get_conversation_by_id("c1") is None


async def test_whose_a_conversation_is_is_asked_once(
    entangled: MessageStore, own: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, asked = entangled.backend.get_conversation, []

    async def note(conversation_id: str) -> Any:
        asked.append(conversation_id)
        return await read(conversation_id)

    monkeypatch.setattr(entangled.backend, "get_conversation", note)
    await own.get_or_create_conversation(conversation("c5"))
    for number in range(3):
        await own.store_message(message(f"n{number}"))
        await own.store_message(message(f"o{number}", conversation_id="c5"))
    assert asked.count("c1") == 1
    asked.clear()
    await own.store_conversation(conversation("c5"))

    assert asked == []
