"""A store is opened from a mapping, a URL or the environment, and closed for good."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jazzmine import StoreClosedError
from jazzmine.core.message_store import JSONMessageStore, MessageStore
from tests.behaviour.apis import Api
from tests.behaviour.backends import Config
from tests.behaviour.calls import CALLS
from tests.behaviour.samples import conversation, message

VARIABLE = "JAZZMINE_MESSAGE_STORE"
TIME_LIMITS = {
    "json": ["lock_timeout"],
    "sqlite": ["timeout"],
    "postgres": ["timeout", "migration_timeout"],
    "mongodb": ["timeout", "migration_timeout"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, without jazzmine's environment variables."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


@pytest.fixture
async def store(api: Api, config: Config) -> AsyncIterator[MessageStore]:
    """An empty store for this test to close."""
    async with await api.MessageStore.initialize(config) as opened:
        yield opened


# Closing


async def test_a_store_may_be_closed_twice(store: MessageStore) -> None:
    await store.close()
    await store.close()


@pytest.mark.smoke
async def test_a_closed_store_refuses_every_call(store: MessageStore) -> None:
    await store.close()

    for call in CALLS.values():
        with pytest.raises(StoreClosedError, match="closed"):
            await call(store)


async def test_a_closed_store_refuses_to_iterate(store: MessageStore) -> None:
    await store.close()

    with pytest.raises(StoreClosedError, match="closed"):
        store.iter_messages("c1")


async def test_a_store_is_closed_at_the_end_of_its_block(api: Api, config: Config) -> None:
    async with await api.MessageStore.initialize(config) as store:
        await store.ping()

    with pytest.raises(StoreClosedError):
        await store.ping()


@pytest.mark.parametrize("seconds", [100_000.0, 1e308])
async def test_a_time_limit_of_any_length_is_accepted(
    api: Api, seconds: float, config: Config
) -> None:
    limits = TIME_LIMITS.get(str(config["storage"]), [])
    async with await api.MessageStore.initialize(
        {**config, **dict.fromkeys(limits, seconds)}
    ) as store:
        await store.store_conversation(conversation("c1"))

        assert len(await store.append_messages("c1", [message("m1")])) == 1


@pytest.mark.smoke
async def test_closing_one_store_leaves_another_on_the_same_data_open(
    api: Api, chat: MessageStore, config: Config
) -> None:
    async with await api.MessageStore.initialize(config) as other:
        await chat.close()

        await other.store_message(message())

        assert await other.get_message_by_id("m1") == message()


# Opening


async def test_opening_does_not_change_the_configuration(api: Api, config: Config) -> None:
    before = dict(config)

    async with await api.MessageStore.initialize(config):
        assert config == before


async def test_a_mapping_without_a_storage_is_a_json_store(api: Api, folder: Path) -> None:
    async with await api.MessageStore.initialize({"path": str(folder / "here.json")}) as store:
        assert isinstance(store, JSONMessageStore)
        await store.store_conversation(conversation())

    assert (folder / "here.json").exists()


async def test_where_nothing_is_said_there_is_a_json_store_in_the_current_folder(
    api: Api,
    folder: Path,
) -> None:
    async with await api.MessageStore.initialize() as store:
        await store.store_conversation(conversation())

    assert (folder / "messages.json").exists()
