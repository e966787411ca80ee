"""A store of working memory is opened, used and closed."""

from __future__ import annotations

import pytest

from jazzmine.sync.working_memory import InMemoryWorkingMemoryStore, WorkingMemoryStore
from jazzmine.errors import StoreClosedError
from tests.behaviour.backends import Config
from tests.behaviour.memory_samples import UPDATES, Update, busy

METHODS = [
    *UPDATES,
    Update("get"),
    Update("delete"),
    Update("get_or_create", lambda: ("user", "agent")),
]


def test_a_mapping_opens_a_store(memory_config: Config) -> None:
    with WorkingMemoryStore.initialize(memory_config) as store:
        assert store.active_count() == 0


@pytest.mark.parametrize("seconds", [100_000.0, 1e308])
def test_a_time_limit_of_any_length_is_accepted(
    seconds: float, memory_config: Config
) -> None:
    limits = {"timeout": seconds, "lock_timeout": seconds, "ttl_seconds": seconds}
    with WorkingMemoryStore.initialize({**memory_config, **limits}) as store:
        store.get_or_create("c1", "u1", "a1")

        assert (store.end_turn("c1", "Hello", "greet")).last_agent_response == "Hello"


def test_without_a_configuration_everything_is_kept_in_this_process() -> None:
    with WorkingMemoryStore.initialize() as store:
        assert isinstance(store, InMemoryWorkingMemoryStore)
        assert store.active_count() == 0


def test_a_store_may_be_made_by_its_class() -> None:
    with InMemoryWorkingMemoryStore(lock_timeout=1) as store:
        saved = store.save(busy("c"))

        assert store.get("c") == saved


def test_two_stores_of_this_process_share_nothing() -> None:
    with InMemoryWorkingMemoryStore() as first, InMemoryWorkingMemoryStore() as second:
        first.save(busy("c"))

        assert second.get("c") is None


def test_the_configuration_stays_as_it_was(memory_config: Config) -> None:
    before = dict(memory_config)

    with WorkingMemoryStore.initialize(memory_config):
        pass

    assert memory_config == before


def test_closing_twice_is_closing_once(memory_config: Config) -> None:
    store = WorkingMemoryStore.initialize(memory_config)
    store.close()

    store.close()

    with pytest.raises(StoreClosedError):
        store.get("c")


def test_leaving_the_context_closes_the_store(memory_config: Config) -> None:
    with WorkingMemoryStore.initialize(memory_config) as store:
        store.save(busy("c"))

    with pytest.raises(StoreClosedError):
        store.get("c")


def test_an_error_in_the_context_closes_the_store_and_is_raised(
    memory_config: Config,
) -> None:
    store = WorkingMemoryStore.initialize(memory_config)

    with pytest.raises(ZeroDivisionError):
        with store:
            raise ZeroDivisionError

    with pytest.raises(StoreClosedError):
        store.active_count()


def test_a_closed_store_cannot_be_entered(memory_config: Config) -> None:
    store = WorkingMemoryStore.initialize(memory_config)
    store.close()

    with pytest.raises(StoreClosedError):
        with store:
            pytest.fail("the closed store was entered")


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_closed_store_refuses_every_call(memory_config: Config, method: Update) -> None:
    store = WorkingMemoryStore.initialize(memory_config)
    store.save(busy("c"))
    store.close()

    with pytest.raises(StoreClosedError, match="initialize"):
        method.on(store, "c")


def test_a_closed_store_refuses_to_save_to_count_and_to_lock(memory_config: Config) -> None:
    store = WorkingMemoryStore.initialize(memory_config)
    memory = store.save(busy("c"))
    store.close()

    with pytest.raises(StoreClosedError):
        store.save(memory)
    with pytest.raises(StoreClosedError):
        store.active_count()
    with pytest.raises(StoreClosedError):
        with store.locked("c"):
            pytest.fail("the block was entered")
