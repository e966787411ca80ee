"""Versions of frameworks that an adapter works with, and others."""

from __future__ import annotations

import pytest

from jazzmine.adapters import _versions
from jazzmine.adapters._versions import supported


def test_a_framework_that_is_not_installed_is_named() -> None:
    with (
        pytest.raises(ImportError, match=r"pip install 'no-such-framework>=1.0,<2'"),
        supported("no-such-framework", "1.0", "2"),
    ):
        pass


@pytest.mark.parametrize("found", ["1.2.0", "1.2", "1.2.0.post1", "1.9.9+local", "1.10"])
def test_a_version_in_the_range_is_accepted(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(_versions, "version", lambda package: found)
    with supported("framework", "1.2.0", "2.0"):
        pass


@pytest.mark.parametrize("found", ["1.1.9", "2.0.0a1", "2.0"])
def test_a_version_that_was_not_tested_is_refused(
    monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    monkeypatch.setattr(_versions, "version", lambda package: found)
    with (
        pytest.raises(ImportError, match=f"does not work with framework {found}"),
        supported("framework", "1.2.0", "2.0"),
    ):
        pass
