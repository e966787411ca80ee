"""Versions of frameworks that an adapter works with, and others."""

from __future__ import annotations

import pytest

from jazzmine.adapters._versions import is_between, supported


def test_a_framework_that_is_not_installed_is_named() -> None:
    with (
        pytest.raises(ImportError, match=r"pip install 'no-such-framework>=1.0,<2'"),
        supported("no-such-framework", "1.0", "2"),
    ):
        pass


@pytest.mark.parametrize(("oldest", "too_new"), [("999.1", "1000"), ("0.1", "1.2")])
def test_a_version_that_was_not_tested_is_refused(oldest: str, too_new: str) -> None:
    with (
        pytest.raises(ImportError, match="does not work with pydantic 2"),
        supported("pydantic", oldest, too_new),
    ):
        pass


def test_a_version_in_the_range_is_accepted() -> None:
    with supported("pydantic", "2.11", "3"):
        pass


@pytest.mark.parametrize(
    "number", ["1.2.0", "1.2", "1.2.0.post1", "1.2.1rc1", "1.9.9+local", "1.10"]
)
def test_releases_of_the_range_are_in_it(number: str) -> None:
    assert is_between(number, "1.2.0", "2.0")


@pytest.mark.parametrize("number", ["1.2.0rc1", "1.2.0.dev3", "1.2b1", "1.1.9", "2.0.0a1", "2.0"])
def test_a_prerelease_of_the_first_or_the_next_release_is_not_in_it(number: str) -> None:
    assert not is_between(number, "1.2.0", "2.0")
