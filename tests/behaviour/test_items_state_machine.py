"""Random calls to a long-term memory of each back end have the results of a model."""

from __future__ import annotations

import pytest

from tests.behaviour.apis import Api, Runner
from tests.behaviour.backends import Backend, Config
from tests.behaviour.items_machine import ItemMachine
from tests.behaviour.state_machine import SETTINGS
from tests.mutants import run_machine

pytestmark = pytest.mark.variants


@pytest.mark.every_combination
@pytest.mark.parametrize("first_viewer", [None, "ann"], ids=["whole", "scoped"])
def test_the_store_has_the_results_of_its_model(
    api: Api, item_backend: Backend, item_config: Config, first_viewer: str | None
) -> None:
    with Runner() as shared_runner:

        class BackendMachine(ItemMachine):
            open_store = staticmethod(lambda: api.LongTermMemoryStore.initialize(item_config))
            runner = shared_runner
            count = 2 if item_backend.shared else 1
            viewer = first_viewer

        run_machine(BackendMachine, SETTINGS, api, item_backend)
