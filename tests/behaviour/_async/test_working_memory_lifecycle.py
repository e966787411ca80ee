"""A store of working memory is opened, used and closed."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine.core.working_memory import InMemoryWorkingMemoryStore, WorkingMemoryStore
from jazzmine.errors import ConfigurationError, InvalidAddressError, StoreClosedError
from tests.behaviour.backends import Config
from tests.behaviour.memory_samples import UPDATES, Update, busy

METHODS = [
    *UPDATES,
    Update("get"),
    Update("delete"),
    Update("get_or_create", lambda: ("user", "agent")),
]


async def test_a_mapping_opens_a_store(memory_config: Config) -> None:
    async with await WorkingMemoryStore.initialize(memory_config) as store:
        assert await store.active_count() == 0


@pytest.mark.parametrize("seconds", [100_000.0, 1e308])
async def test_a_time_limit_of_any_length_is_accepted(
    seconds: float, memory_config: Config
) -> None:
    limits = {"timeout": seconds, "lock_timeout": seconds, "ttl_seconds": seconds}
    async with await WorkingMemoryStore.initialize({**memory_config, **limits}) as store:
        await store.get_or_create("c1", "u1", "a1")

        assert (await store.end_turn("c1", "Hello", "greet")).last_agent_response == "Hello"


@pytest.mark.parametrize(
    "config",
    [
        {"storage": "memory"},
        {"storage": "MEMORY"},
        {},
        {"ttl_seconds": 5, "lock_timeout": 3, "timeout": 4.5},
        "memory:",
        "Memory:",
    ],
    ids=repr,
)
async def test_a_store_of_this_process_is_opened_by_name_by_url_and_by_default(
    config: Any,
) -> None:
    async with await WorkingMemoryStore.initialize(config) as store:
        assert isinstance(store, InMemoryWorkingMemoryStore)
        assert await store.active_count() == 0


async def test_without_a_configuration_the_environment_names_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAZZMINE_WORKING_MEMORY", "memory:")

    async with await WorkingMemoryStore.initialize() as store:
        assert isinstance(store, InMemoryWorkingMemoryStore)


async def test_a_wrong_url_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAZZMINE_WORKING_MEMORY", "carrier-pigeon:")

    with pytest.raises(InvalidAddressError):
        await WorkingMemoryStore.initialize()


@pytest.mark.parametrize("value", [None, ""], ids=repr)
async def test_without_any_configuration_everything_is_kept_in_this_process(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("JAZZMINE_WORKING_MEMORY", raising=False)
    if value is not None:
        monkeypatch.setenv("JAZZMINE_WORKING_MEMORY", value)

    async with await WorkingMemoryStore.initialize() as store:
        assert isinstance(store, InMemoryWorkingMemoryStore)


async def test_a_store_may_be_made_by_its_class() -> None:
    async with InMemoryWorkingMemoryStore(lock_timeout=1) as store:
        saved = await store.save(busy("c"))

        assert await store.get("c") == saved


async def test_two_stores_of_this_process_share_nothing() -> None:
    async with InMemoryWorkingMemoryStore() as first, InMemoryWorkingMemoryStore() as second:
        await first.save(busy("c"))

        assert await second.get("c") is None


async def test_an_unknown_storage_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigurationError, match=r"'memry'; did you mean 'memory'\?"):
        await WorkingMemoryStore.initialize({"storage": "memry"})


async def test_an_unknown_key_is_refused_with_the_nearest_one_and_the_allowed_ones(
    memory_config: Config,
) -> None:
    with pytest.raises(
        ConfigurationError, match=r"'lock_timout'.* did you mean 'lock_timeout'\? allowed: storage,"
    ):
        await WorkingMemoryStore.initialize({**memory_config, "lock_timout": 1})


@pytest.mark.parametrize("wrong", ["15", None, True, 0, -1, float("nan"), float("inf")], ids=repr)
@pytest.mark.parametrize("key", ["ttl_seconds", "lock_timeout", "timeout"])
async def test_a_time_that_is_no_time_is_refused(
    memory_config: Config, key: str, wrong: object
) -> None:
    with pytest.raises(ConfigurationError, match=key):
        await WorkingMemoryStore.initialize({**memory_config, key: wrong})


@pytest.mark.parametrize(
    "wrong", [7, ["memory"], b"memory:", object()], ids=lambda w: type(w).__name__
)
async def test_a_value_that_is_no_configuration_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="mapping, a URL, a path or None"):
        await WorkingMemoryStore.initialize(wrong)


@pytest.mark.parametrize("wrong", [None, 7, ["memory"]], ids=repr)
async def test_a_storage_that_is_no_name_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match="storage must be a string"):
        await WorkingMemoryStore.initialize({"storage": wrong})


async def test_a_url_of_an_unknown_kind_is_refused_without_being_repeated() -> None:
    with pytest.raises(InvalidAddressError) as raised:
        await WorkingMemoryStore.initialize("amqp://ann:secret@broker.example")

    assert "memory:" in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "broker" not in str(raised.value)


async def test_a_wrong_configuration_is_a_value_error() -> None:
    with pytest.raises(ValueError):
        await WorkingMemoryStore.initialize({"storage": "nowhere"})


async def test_the_configuration_stays_as_it_was(memory_config: Config) -> None:
    before = dict(memory_config)

    async with await WorkingMemoryStore.initialize(memory_config):
        pass

    assert memory_config == before


async def test_closing_twice_is_closing_once(memory_config: Config) -> None:
    store = await WorkingMemoryStore.initialize(memory_config)
    await store.close()

    await store.close()

    with pytest.raises(StoreClosedError):
        await store.get("c")


async def test_leaving_the_context_closes_the_store(memory_config: Config) -> None:
    async with await WorkingMemoryStore.initialize(memory_config) as store:
        await store.save(busy("c"))

    with pytest.raises(StoreClosedError):
        await store.get("c")


async def test_an_error_in_the_context_closes_the_store_and_is_raised(
    memory_config: Config,
) -> None:
    store = await WorkingMemoryStore.initialize(memory_config)

    with pytest.raises(ZeroDivisionError):
        async with store:
            raise ZeroDivisionError

    with pytest.raises(StoreClosedError):
        await store.active_count()


async def test_a_closed_store_cannot_be_entered(memory_config: Config) -> None:
    store = await WorkingMemoryStore.initialize(memory_config)
    await store.close()

    with pytest.raises(StoreClosedError):
        async with store:
            pytest.fail("the closed store was entered")


@pytest.mark.parametrize("method", METHODS, ids=str)
async def test_a_closed_store_refuses_every_call(memory_config: Config, method: Update) -> None:
    store = await WorkingMemoryStore.initialize(memory_config)
    await store.save(busy("c"))
    await store.close()

    with pytest.raises(StoreClosedError, match="initialize"):
        await method.on(store, "c")


async def test_a_closed_store_refuses_to_save_to_count_and_to_lock(memory_config: Config) -> None:
    store = await WorkingMemoryStore.initialize(memory_config)
    memory = await store.save(busy("c"))
    await store.close()

    with pytest.raises(StoreClosedError):
        await store.save(memory)
    with pytest.raises(StoreClosedError):
        await store.active_count()
    with pytest.raises(StoreClosedError):
        async with store.locked("c"):
            pytest.fail("the block was entered")
