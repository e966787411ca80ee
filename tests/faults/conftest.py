"""Has garbage collected where it was made."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _collected() -> Iterator[None]:
    """Have what a module's tests left to the garbage collector not found in another module."""
    yield
    gc.collect()
