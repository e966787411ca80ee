"""The command line: run the named benchmarks, or all of them, and print the tables."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.frame.environments import ROOT
from benchmarks.frame.lab import Lab
from benchmarks.frame.results import table

FOLDER = ROOT / "benchmarks"


def main() -> int:
    """Return 0, or 1 if a benchmark failed; the measured values do not affect the exit status."""
    options = _options()
    print(_machine())
    with _scratch() as scratch:
        lab = Lab(scratch)
        crashed = [name for name in options.questions if not _ask(name, lab)]
    if crashed:
        print(f"could not be answered: {', '.join(crashed)}", file=sys.stderr)
    return 1 if crashed else 0


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder on the disk of this checkout: a temporary folder elsewhere may be memory."""
    common = FOLDER / ".tmp"
    common.mkdir(exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=common))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch)
        with suppress(OSError):
            common.rmdir()


def _ask(name: str, lab: Lab) -> bool:
    started = time.perf_counter()
    try:
        question = importlib.import_module(f"benchmarks.{name}")
        answered = list(question.answer(lab))
    except Exception:
        traceback.print_exc()
        return False
    title = (question.__doc__ or "").splitlines()[0]
    print(f"\n{name}: {title} ({time.perf_counter() - started:.0f} s)\n")
    print(table(answered), flush=True)
    return True


def _machine() -> str:
    """Return a description of the machine, with its load at the start."""
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    busy = "; busy, so trust no figure" if load > 0.5 * cores else ""
    return f"Python {platform.python_version()}, {cores} cores, load {load:.1f}{busy}"


def _options() -> argparse.Namespace:
    known = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
    parser = argparse.ArgumentParser(prog="benchmarks/run", description=__doc__)
    parser.add_argument("questions", nargs="*", metavar="question", help=", ".join(known))
    options = parser.parse_args()
    unknown = sorted(set(options.questions) - set(known))
    if unknown:
        parser.error(f"no such question: {', '.join(unknown)} (there are: {', '.join(known)})")
    options.questions = options.questions or known
    return options


if __name__ == "__main__":
    sys.exit(main())
