"""Any sequence of calls has the results of the model."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from jazzmine.sync.message_store import MessageStore
from tests.behaviour.backends import Backend, Config
from tests.behaviour.state_machine import SETTINGS, machine
from tests.behaviour.support.sync_support import Runner

pytestmark = pytest.mark.variants


def test_any_sequence_of_calls_has_the_results_of_the_model(
    backend: Backend, config: Config
) -> None:
    profile = settings(SETTINGS, max_examples=int(SETTINGS.max_examples * backend.share))
    with Runner() as runner:
        stores = machine(lambda: MessageStore.initialize(config), runner)
        run_state_machine_as_test(stores, settings=profile)
