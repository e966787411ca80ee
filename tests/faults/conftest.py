"""Collect garbage after each module, so that a warning belongs to the module that caused it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _collected() -> Iterator[None]:
    """Collect the garbage of a module before the next module runs."""
    yield
    gc.collect()
