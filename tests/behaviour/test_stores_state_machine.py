"""Any sequence of calls to a message store or a long-term memory has the results of the model."""

from __future__ import annotations

import pytest

from tests.behaviour.apis import Api, Runner
from tests.behaviour.backends import Backend, Config
from tests.behaviour.items_machine import ItemMachine
from tests.behaviour.state_machine import SETTINGS, machine
from tests.mutants import run_machine

pytestmark = [pytest.mark.variants, pytest.mark.every_combination]

whole_and_views = pytest.mark.parametrize("has_views", [False, True], ids=["whole", "views"])


@whole_and_views
def test_messages_are_those_of_the_model(
    api: Api, backend: Backend, config: Config, has_views: bool
) -> None:
    with Runner() as runner:
        stores = machine(
            lambda: api.MessageStore.initialize(config),
            runner,
            remembers=backend.name == "mongodb",
            has_views=has_views,
        )
        run_machine(stores, SETTINGS, api, backend)


@whole_and_views
def test_items_are_those_of_the_model(
    api: Api, item_backend: Backend, item_config: Config, has_views: bool
) -> None:
    with Runner() as shared_runner:

        class BackendMachine(ItemMachine):
            open_store = staticmethod(lambda: api.LongTermMemoryStore.initialize(item_config))
            runner = shared_runner
            count = 2 if item_backend.shared else 1
            viewer = "ann" if has_views else None

        run_machine(BackendMachine, SETTINGS, api, item_backend)
