"""An interrupted `scripts/install` is repaired by the next one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Stands for Python: it makes an environment whose own Python installs nothing. With a file
# `interrupt`, it dies as after Ctrl-C, in the middle of making the environment or of installing.
PYTHON = """#!/bin/sh
case "$1 $2" in
"-m venv")
    mkdir -p "$3/bin"
    cp "$0" "$3/bin/python"
    if [ -e interrupt-venv ]; then echo half > "$3/half"; kill -INT $$; fi ;;
"-m pip")
    if [ -e interrupt-pip ]; then echo half > .venv/half; kill -INT $$; fi ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "install", tmp_path / "scripts")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def install(checkout: Path) -> int:
    env = {**os.environ, "PYTHON": str(checkout / "python"), "VENV": ".venv"}
    command = [str(checkout / "scripts" / "install"), "-"]
    return subprocess.run(command, cwd=checkout, env=env, timeout=60).returncode


@pytest.mark.parametrize("step", ["venv", "pip"])
def test_an_environment_that_was_half_made_is_made_anew(checkout: Path, step: str) -> None:
    interrupt = checkout / f"interrupt-{step}"
    interrupt.touch()
    assert install(checkout) != 0
    assert (checkout / ".venv" / "half").exists()

    interrupt.unlink()
    assert install(checkout) == 0

    assert not (checkout / ".venv" / "half").exists()
    assert (checkout / ".venv" / ".installed").exists()
    assert not (checkout / ".venv.unfinished").exists()


def test_an_environment_that_is_complete_stays(checkout: Path) -> None:
    assert install(checkout) == 0
    (checkout / ".venv" / "own").touch()
    (checkout / "pyproject.toml").write_text("# other requirements\n")
    (checkout / "interrupt-pip").touch()
    assert install(checkout) != 0
    (checkout / "interrupt-pip").unlink()
    assert install(checkout) == 0

    assert (checkout / ".venv" / "own").exists()


def test_a_folder_of_somebody_else_is_never_removed(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "own").touch()
    (checkout / "interrupt-venv").touch()
    assert install(checkout) != 0
    (checkout / "interrupt-venv").unlink()
    assert install(checkout) == 0

    assert (checkout / ".venv" / "own").exists()
