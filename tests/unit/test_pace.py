"""An erasure takes smaller steps while they take long, and larger ones while they do not."""

from __future__ import annotations

import pytest

from jazzmine._sync.message_store import pace as module
from jazzmine._sync.message_store.pace import Pace


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    paused: list[float] = []
    monkeypatch.setattr(module, "sleep", paused.append)
    return paused


def step(pace: Pace, seconds: float, monkeypatch: pytest.MonkeyPatch) -> int:
    """Take a step of some time; return the size of the next one."""
    with monkeypatch.context() as patched:
        ended = pace._began + seconds
        patched.setattr("time.monotonic", lambda: ended)
        pace.end_step()
    return pace.size


def test_short_steps_grow_up_to_a_limit(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = Pace(50)
    sizes = [pace.size, *(step(pace, 0.0001, monkeypatch) for _ in range(20))]

    assert sizes[:3] == [50, 100, 150]
    assert sizes[-1] == 200


def test_a_long_step_halves_the_next_down_to_a_limit(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = Pace(50)
    for _ in range(20):
        step(pace, 0.0001, monkeypatch)

    assert [step(pace, 5.0, monkeypatch) for _ in range(5)] == [100, 50, 50, 50, 50]


def test_pauses_are_longer_than_the_steps_up_to_a_limit(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = Pace(50)
    for seconds in (0.001, 5.0):
        step(pace, seconds, monkeypatch)

    assert pauses == [pytest.approx(0.004), 0.01]
