"""How a state machine is run in the suite, and on a class with a deliberate defect."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.faults.sizes import SOAK

__all__ = ["require_overrides", "run_machine", "run_until_it_fails"]

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


def run_machine(machine: Any, settings_of_soak: settings, share: float) -> None:
    """Run a state machine: a few rounds in the suite, and as its settings say for `scripts/soak`.

    Args:
        machine: the state machine of a store.
        settings_of_soak: how many and how long sequences `scripts/soak` makes.
        share: the part of them that is made on the store's back end.
    """
    if not SOAK:
        return run_until_it_fails(machine, max(1, round(3 * share)))
    examples = int(settings_of_soak.max_examples * share)
    return run_state_machine_as_test(
        machine, settings=settings(settings_of_soak, max_examples=examples)
    )


def require_overrides(mutant: type) -> None:
    """Fail if a mutant has a method that its base lacks, which nothing would call."""
    base = mutant.__mro__[1]
    new = [name for name, value in vars(mutant).items() if callable(value)]
    assert [name for name in new if not hasattr(base, name)] == []
