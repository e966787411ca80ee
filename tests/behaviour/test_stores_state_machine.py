"""Any sequence of calls has the results of the model."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.behaviour.apis import Api, Runner
from tests.behaviour.backends import Backend, Config
from tests.behaviour.state_machine import SETTINGS, machine

pytestmark = pytest.mark.variants


def test_any_sequence_of_calls_has_the_results_of_the_model(
    api: Api, backend: Backend, config: Config
) -> None:
    profile = settings(SETTINGS, max_examples=int(SETTINGS.max_examples * backend.share))
    with Runner() as runner:
        stores = machine(lambda: api.MessageStore.initialize(config), runner)
        run_state_machine_as_test(stores, settings=profile)
