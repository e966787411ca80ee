"""What a turn took is written for people."""

from __future__ import annotations

import pytest

from jazzmine.records.timeline import at_least, money


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (12345.67, "12,345.67"),
        (9.05e-05, "0.00009"),
        (0.0, "0.00"),
        (0.25, "0.25"),
        (0.0125, "0.0125"),
        (0.3, "0.30"),
        (-2.5, "-2.50"),
        (1e-12, "0.000000000001"),
    ],
)
def test_costs_are_written_as_people_write_money(usd: float, text: str) -> None:
    assert money(usd) == text


def test_a_sum_says_what_it_lacks() -> None:
    assert at_least("9 tokens", 9, 0) == "9 tokens"
    assert at_least("9 tokens", 9, 1) == "≥ 9 tokens"
    assert at_least("0", 0, 1) == "–"
