"""Messages are found by their words."""

from __future__ import annotations

import random
from typing import Any

import pytest

from jazzmine import ConfigurationError, NotFoundError
from jazzmine.core.message_store import Conversation, Message, MessageRole, MessageStore
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config
from tests.behaviour.samples import conversation, message
from tests.behaviour.search_model import SearchModel, found, random_query, random_text

TEXTS = {
    "m1": "I want a refund for my shoes",
    "m2": "Refunding shoes is easy",
    "m3": "The last Tuesday's order. Refund, refund!",
    "m4": "日本語です, Café \0",
}


async def store_texts(store: MessageStore) -> None:
    await store.store_conversation(conversation("c1"))
    await store.store_messages(
        [
            message(id, original_content=text, timestamp=number)
            for number, (id, text) in enumerate(TEXTS.items())
        ]
    )


async def ids(store: MessageStore, query: str, **arguments: Any) -> list[str]:
    return [one.message.id for one in await store.search_messages(query, **arguments)]


@pytest.mark.smoke
async def test_words_stems_phrases_prefixes_and_exclusions_are_found(
    searched: MessageStore,
) -> None:
    await store_texts(searched)

    assert await ids(searched, "refunds") == ["m3", "m2", "m1"]
    assert await ids(searched, "refund -shoes") == ["m3"]
    assert await ids(searched, '"for my"') == ["m1"]
    assert await ids(searched, '"my for"') == []
    assert await ids(searched, "tues*") == ["m3"]
    assert await ids(searched, "cafe") == await ids(searched, "日本語") == ["m4"]
    assert await ids(searched, "語") == ["m4"]
    assert await ids(searched, "-refund") == await ids(searched, "?! ") == []
    assert await ids(searched, "refund", limit=1) == ["m3"]


async def test_the_places_of_the_words_are_told(searched: MessageStore) -> None:
    await store_texts(searched)

    [best, *_] = await searched.search_messages('refund "last tues*"')

    text = best.message.original_content
    assert best.message == await searched.get_message_by_id("m3")
    assert [text[start:end] for start, end in best.spans] == ["last Tuesday's", "Refund", "refund"]
    assert best.score > 0
    [only] = await searched.search_messages("語で cafe")
    assert [only.message.original_content[a:b] for a, b in only.spans] == ["語で", "Café"]


async def test_the_newest_with_all_words_are_listed_in_pages(searched: MessageStore) -> None:
    await store_texts(searched)

    assert await ids(searched, "refund", order="newest") == ["m3", "m2", "m1"]
    assert await ids(searched, "refund shoes", order="newest") == ["m2", "m1"]
    assert await ids(searched, "refund", order="newest", limit=1, after="m3") == ["m2"]
    assert await ids(searched, "refund", limit=0) == []
    assert await ids(searched, "refund", order="newest", limit=0, after="m3") == []
    for limit in (20, 0):
        with pytest.raises(NotFoundError, match="after='m9'"):
            await searched.search_messages("refund", order="newest", limit=limit, after="m9")
    with pytest.raises(ValueError, match="a ranking has no pages"):
        await searched.search_messages("refund", after="m3")
    with pytest.raises(ValueError, match="order must be one of relevance, newest"):
        await searched.search_messages("refund", order="oldest")  # type: ignore[arg-type]


async def test_candidates_without_the_phrase_are_read_on_up_to_a_limit(
    searched: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store_texts(searched)
    candidates = [message(f"n{n}", original_content="my coat, for me") for n in range(3)]
    await searched.store_messages(candidates)

    for most, expected in ((2_000, ["m1"]), (4, ["m1"]), (3, [])):
        for api in ("async", "sync"):
            name = f"jazzmine._{api}.message_store.searching.MOST_READ"
            monkeypatch.setattr(name, most)
        assert await ids(searched, '"for my"', order="newest", limit=1) == expected


async def test_a_word_that_half_of_many_messages_have_finds_nothing_beside_rarer_ones(
    searched: MessageStore,
) -> None:
    await searched.store_conversation(conversation("c1"))
    texts = ["the end", "a beginning"] * 49 + ["the end"]
    stored = [message(f"m{n}", original_content=text) for n, text in enumerate(texts)]
    await searched.store_messages(stored)
    assert len(await ids(searched, "the", limit=200)) == 50

    await searched.store_message(message("rare", original_content="the rare"))

    assert len(await ids(searched, "the", limit=200)) == 51
    assert len(await ids(searched, "the end", limit=200)) == 50 + 1
    assert await ids(searched, "the rare") == ["rare"]


async def test_a_user_finds_as_much_as_others_have_not_said(searched: MessageStore) -> None:
    for owner, user_id in (("c1", "u1"), ("c2", "u2")):
        await searched.store_conversation(conversation(owner, user_id=user_id))
    said = [("own", "c1", "u1"), ("his", "c1", "u2"), *((f"o{n}", "c2", "u1") for n in range(3))]
    await searched.store_messages(
        message(name, conversation_id=owner, user_id=user_id, original_content="tea")
        for name, owner, user_id in said
    )
    own = searched.scoped(user_id="u1")

    assert await ids(own, "tea", order="newest", limit=1) == ["own"]
    assert sorted(await ids(own, "tea", conversation_id="c1")) == ["his", "own"]


async def test_a_store_without_an_index_says_how_to_add_it(store: MessageStore) -> None:
    with pytest.raises(ConfigurationError, match="`jazzmine index` adds it"):
        await store.search_messages("tea")
    assert await store.search_messages("tea", limit=0) == []


async def test_an_index_is_added_in_steps_changed_and_removed(searched: MessageStore) -> None:
    await store_texts(searched)
    hooks = searched.backend
    await hooks.make_search(None)
    with pytest.raises(ConfigurationError, match="this store has no search"):
        await searched.search_messages("refund")
    assert await hooks.fill_search(1) is None

    await hooks.make_search("")
    assert await hooks.search_state() == ("", False)
    with pytest.raises(ConfigurationError, match="is not complete yet"):
        await searched.search_messages("refund")
    await searched.store_message(message("m5", original_content="refund"))
    while (await hooks.fill_search(1)) is not None:
        await searched.delete_message("m4")

    assert await hooks.search_state() == ("", True)
    assert await ids(searched, "refunds") == []
    assert await ids(searched, "refund") == ["m5", "m3", "m1"]
    assert await ids(searched, "日本語") == []


async def test_a_store_keeps_the_search_that_it_was_made_with(
    api: Api, search_config: Config
) -> None:
    if search_config["storage"] == "memory":
        return
    plain = {**search_config, "search": False}
    async with await api.MessageStore.initialize(search_config) as one:
        await store_texts(one)
    async with await api.MessageStore.initialize(plain) as two:
        assert await ids(two, "refunding") == ["m3", "m2", "m1"]
        await two.store_message(message("m5", original_content="refunded"))
        assert "m5" in await ids(two, "refunding")
    with pytest.raises(ConfigurationError, match="the store has search 'english'"):
        await api.MessageStore.initialize({**search_config, "search": True})
    async with await api.MessageStore.initialize(plain) as last:
        await last.backend.make_search(None)


@pytest.mark.smoke
@pytest.mark.parametrize("seed", range(4))
async def test_the_answers_are_those_of_reading_every_message(
    searched: MessageStore, seed: int
) -> None:
    draw, model = random.Random(seed), SearchModel()
    for number in (1, 2, 3):
        record = conversation(f"c{number}", user_id=f"u{number % 2 + 1}", agent_id=f"a{number}")
        await searched.store_conversation(record)
        model.conversations[record.id] = record

    for _ in range(8):
        for _ in range(5):
            await change(searched, model, draw)
        query, scope = random_query(draw)
        store, viewer = searched, scope.pop("viewer", None)
        limits = dict(scope)
        if viewer is not None:
            store = searched.scoped(user_id=viewer)
            limits.pop("user_id", None)
            scope.pop("user_id", None)
            if "conversation_id" not in scope:
                scope["user_id"] = viewer

        best = await store.search_messages(query, **limits, limit=100)
        assert found(best) == model.within(viewer, model.best(query, **scope)), query
        newest = await store.search_messages(query, **limits, order="newest")
        assert found(newest) == model.within(viewer, model.newest(query, **scope))[:20], query


CHANGES = (
    *("store", "store", "store", "store", "append", "append", "turn", "turn", "edit", "edit"),
    *("flag", "delete", "pop", "rewind", "replace", "fork", "owner", "owner"),
    *("delete_conversation", "erase", "prune"),
)


async def change(store: MessageStore, model: SearchModel, draw: random.Random) -> None:
    """Do one of the calls that change messages, on a store and in the model."""
    owner = draw.choice(sorted(model.conversations))
    of_owner = sorted(
        (one for one in model.messages.values() if one.conversation_id == owner),
        key=lambda one: one.timestamp,
    )
    match draw.choice(CHANGES):
        case "store":
            new = new_message(owner, draw)
            await store.store_message(new)
            model.messages[new.id] = new
        case "append":
            given = [new_message(owner, draw) for _ in range(2)]
            for stored in await store.append_messages(owner, given):
                model.messages[stored.id] = stored
        case "turn":
            record, given = other_owner(model, owner, draw), [new_message(owner, draw)]
            await store.store_turn(conversation=record, messages=given)
            model.conversations[owner] = record
            model.messages[given[0].id] = given[0]
        case "owner":
            model.conversations[owner] = other_owner(model, owner, draw)
            await store.update_conversation(model.conversations[owner])
        case "edit" if of_owner:
            fields = {"original_content": random_text(draw)}
            edited = draw.choice(of_owner).model_copy(update=fields)
            if draw.random() < 0.5:
                edited = await store.edit_message(edited.id, **fields)
            else:
                edited.user_id = draw.choice(["u1", "u2"])
                await store.update_message(edited)
            model.messages[edited.id] = edited
        case "flag" if of_owner:
            await store.flag_message(draw.choice(of_owner).id)
        case "delete" if of_owner:
            deleted = draw.choice(of_owner).id
            await store.delete_message(deleted)
            del model.messages[deleted]
        case "pop" if of_owner:
            assert (await store.pop_message(owner)).id == of_owner[-1].id  # type: ignore[union-attr]
            del model.messages[of_owner[-1].id]
        case "rewind" if len(of_owner) > 3:
            await store.rewind_conversation(owner, after=of_owner[-3].id)
            for gone in of_owner[-2:]:
                del model.messages[gone.id]
        case "replace" if len(of_owner) > 1:
            given, last = [new_message(owner, draw)], of_owner[-2].id
            [stored] = await store.append_messages(owner, given, replace_after=last)
            del model.messages[of_owner[-1].id]
            model.messages[stored.id] = stored
        case "fork":
            copy = other_owner(model, owner, draw).model_copy(
                update={"id": f"f{draw.getrandbits(64)}"}
            )
            copies = await store.fork_conversation(owner, copy)
            model.conversations[copy.id] = copy
            for stored in await store.get_messages_by_ids(list(copies.values())):
                model.messages[stored.id] = stored
        case "delete_conversation":
            await store.delete_conversation(owner)
            await forget_deleted(store, model)
        case "erase":
            await store.erase_user(draw.choice(["u1", "u2"]))
            await forget_deleted(store, model)
        case "prune":
            await store.prune_conversations(before=draw.randrange(4))
            await forget_deleted(store, model)


def other_owner(model: SearchModel, owner: str, draw: random.Random) -> Conversation:
    """Return a conversation with some user, agent and time."""
    return conversation(
        owner,
        user_id=draw.choice(["u1", "u2"]),
        agent_id=draw.choice(["a1", "a2"]),
        created_at=0,
        last_updated_at=draw.randrange(10),
    )


async def forget_deleted(store: MessageStore, model: SearchModel) -> None:
    """Remove what is not stored any more from the model, and store c1, c2 and c3 again."""
    stored = {one.id for one in await store.get_messages_by_ids(list(model.messages))}
    model.messages = {id: one for id, one in model.messages.items() if id in stored}
    model.conversations = {one.id: one for one in await store.get_conversations()}
    for number in (1, 2, 3):
        record = conversation(f"c{number}")
        if record.id not in model.conversations:
            await store.store_conversation(record)
            model.conversations[record.id] = record


def new_message(owner: str, draw: random.Random) -> Message:
    return message(
        f"m{draw.getrandbits(64)}",
        conversation_id=owner,
        user_id=draw.choice(["u1", "u2"]),
        role=draw.choice([MessageRole.USER, MessageRole.ASSISTANT]),
        original_content=random_text(draw),
        timestamp=draw.randrange(10),
    )
