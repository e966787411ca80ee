"""A record of the commands that a MongoDB store sends, by PyMongo's command monitoring."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from pymongo import monitoring

from jazzmine._async.clients.mongodb import types as async_types
from jazzmine._sync.clients.mongodb import types as sync_types

_CLIENTS = {
    "jazzmine._async.clients.mongodb.client.Client": async_types.Client,
    "jazzmine._sync.clients.mongodb.client.Client": sync_types.Client,
}


class Commands(monitoring.CommandListener):
    """The names of the commands that were sent, except commits, which are counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        for place, client in _CLIENTS.items():
            monkeypatch.setattr(place, partial(client, event_listeners=[self]))

    def clear(self) -> None:
        self.sent.clear()
        self.bodies.clear()

    @property
    def besides_commit(self) -> list[str]:
        return [name for name in self.sent if name != "commitTransaction"]

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.sent.append(event.command_name)
        self.bodies.append(dict(event.command))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Do nothing."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Do nothing."""
