"""The program with all its commands, in the order of its help."""

from __future__ import annotations

from importlib import import_module

from jazzmine.cli.program import app

__all__ = ["app"]

_LOOKING = ("reading", "turns", "searching", "inspecting")
_CHANGING = ("moving", "copying", "adopting", "deleting", "doctor", "rekeying")

for _name in (*_LOOKING, *_CHANGING):
    import_module(f"jazzmine.cli.{_name}")
