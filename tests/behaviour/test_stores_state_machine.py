"""Any sequence of calls has the results of the model."""

from __future__ import annotations

import pytest

from tests.behaviour.apis import Api, Runner
from tests.behaviour.backends import Backend, Config
from tests.behaviour.state_machine import SETTINGS, machine
from tests.mutants import run_machine

pytestmark = pytest.mark.variants


@pytest.mark.every_combination
@pytest.mark.parametrize("has_views", [False, True], ids=["whole", "views"])
def test_any_sequence_of_calls_has_the_results_of_the_model(
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
