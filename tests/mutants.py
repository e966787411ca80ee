"""How a state machine is run on a class with a deliberate defect."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

__all__ = ["require_overrides", "run_until_it_fails"]

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


def require_overrides(mutant: type) -> None:
    """Fail if a mutant has a method that its base lacks, which nothing would call."""
    base = mutant.__mro__[1]
    new = [name for name, value in vars(mutant).items() if callable(value)]
    assert [name for name in new if not hasattr(base, name)] == []
