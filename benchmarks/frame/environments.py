"""Virtual environments in the checkout, made again if what they hold is out of date."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["ROOT", "pip", "python_of", "renewed"]

ROOT = Path(__file__).resolve().parents[2]


def python_of(environment: Path) -> Path:
    """Return the interpreter of an environment."""
    return environment / "bin" / "python"


@contextmanager
def renewed(environment: Path, *parts: str) -> Iterator[bool]:
    """Yield whether an environment was made anew, for the block to install what it needs.

    Args:
        environment: its folder; no other process makes it meanwhile.
        parts: what it is made of: it is kept as long as these are the same.
    """
    stamp = hashlib.sha256("\0".join((sys.version, *parts)).encode()).hexdigest()
    note = environment / "benchmarks-stamp"
    environment.parent.mkdir(exist_ok=True)
    with open(f"{environment}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if note.exists() and note.read_text() == stamp:
            yield False
            return
        print(f"making {environment.name} (once)", file=sys.stderr, flush=True)
        shutil.rmtree(environment, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        yield True
        note.write_text(stamp)


def pip(environment: Path, *arguments: str) -> None:
    """Run pip in an environment."""
    command = [str(python_of(environment)), "-m", "pip", "-qq", "--disable-pip-version-check"]
    subprocess.run([*command, *arguments], check=True)
