"""Have calls that wait for a lock try again when they are woken, and not by polling."""

from __future__ import annotations

import itertools

import pytest

from jazzmine._async.working_memory import leased as async_leased
from jazzmine._sync.working_memory import leased as sync_leased

__all__ = ["never_poll"]


def never_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a call that nobody wakes wait until the lock of the other token expires."""
    for leased in (async_leased, sync_leased):
        monkeypatch.setattr(leased, "backoff", lambda *_: itertools.repeat(60.0))
