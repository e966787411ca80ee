"""The program with all its commands."""

from __future__ import annotations

from jazzmine.cli import (
    adopting,
    copying,
    deleting,
    doctor,
    inspecting,
    items,
    moving,
    reading,
    rekeying,
    searching,
    turns,
)
from jazzmine.cli.program import app

__all__ = ["app"]

_COMMANDS = (
    adopting,
    copying,
    deleting,
    doctor,
    inspecting,
    items,
    moving,
    reading,
    rekeying,
    searching,
    turns,
)
