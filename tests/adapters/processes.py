"""Runs programs of the tests in processes of their own, on one store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.behaviour.backends import Config

__all__ = ["run_together"]


ROOT = Path(__file__).resolve().parents[2]


def run_together(
    program: str, config: Config, *commands: tuple[str, ...], home: Path | None = None
) -> list[str]:
    """Run a module once for each command, all at the same time, and return what they print.

    Args:
        program: the module.
        config: the configuration of a store, which is the first argument.
        commands: the other arguments.
        home: the home folder of the processes, which then get no other variable of this one's.
    """
    own = {"HOME": str(home), "PATH": os.defpath, "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", program, json.dumps(config), *command],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT if home is None else home.parent,
            env=None if home is None else own,
        )
        for command in commands
    ]
    printed = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(commands)
    return printed
