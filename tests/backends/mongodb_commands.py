"""A record of the commands that a MongoDB store sends, by PyMongo's command monitoring."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from pymongo import monitoring

from jazzmine._sync.clients.mongodb import types


class Commands(monitoring.CommandListener):
    """The names of the commands that were sent, and the commands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        recorded = partial(types.Client, event_listeners=[self])
        monkeypatch.setattr("jazzmine._sync.clients.mongodb.client.Client", recorded)

    def clear(self) -> None:
        self.sent.clear()
        self.bodies.clear()

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.sent.append(event.command_name)
        self.bodies.append(dict(event.command))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Do nothing."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Do nothing."""
