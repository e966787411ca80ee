"""How a state machine is run in the suite, and on a class with a deliberate defect."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.behaviour.apis import ASYNC, Api
from tests.behaviour.backends import Backend
from tests.faults.sizes import SOAK

# A failure is enough, so Hypothesis need not find the shortest sequence.
ROUND = settings(
    max_examples=10,
    stateful_step_count=30,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


def run_until_it_fails(machine: Any, rounds: int = 100) -> None:
    """Run a state machine many times with few sequences each; raise what the first failure raises.

    A single run with as many sequences takes several times longer to find a defect: the more it
    may try, the more short sequences Hypothesis tries first, and from the eleventh on, most are
    variations of one before.
    """
    for number in range(rounds):
        run_state_machine_as_test(seed(number)(machine), settings=ROUND)


def run_machine(machine: Any, settings_of_soak: settings, api: Api, backend: Backend) -> None:
    """Run a state machine: a few rounds in the suite, and as its settings say for `scripts/soak`.

    The sync API, which is generated, has one round.
    """
    if not SOAK:
        rounds = round(2 * backend.share) if api is ASYNC else 1
        return run_until_it_fails(machine, max(1, rounds))
    examples = int(settings_of_soak.max_examples * backend.share)
    chosen = settings(settings_of_soak, max_examples=examples)
    return run_state_machine_as_test(machine, settings=chosen)


def require_overrides(mutant: type) -> None:
    """Fail if a mutant has a method that its base lacks, which nothing would call."""
    base = mutant.__mro__[1]
    new = [name for name, value in vars(mutant).items() if callable(value)]
    assert [name for name in new if not hasattr(base, name)] == []
