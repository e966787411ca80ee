"""How long does it take to import the sync API?

Whole processes, from start to end, each pair alternating: the import alone, and the first two lines
of a program beside those of a program that defines one pydantic model. All are compiled by the
warm-up round.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.frame.lab import Lab, median_time, race
from benchmarks.frame.results import Row

ROUNDS = 21

IMPORT = "import jazzmine.sync.message_store"
PROGRAM = "from jazzmine.sync.message_store import MessageStore, Message\nMessageStore, Message"
MODEL = "from pydantic import BaseModel\nclass Thing(BaseModel): name: str"


def answer(lab: Lab) -> Iterator[Row]:
    folder = lab.folder()

    def beside(ours: str, other: str) -> Row:
        pairs = race(_process(folder, ours), _process(folder, other), ROUNDS)
        limit = 1.5 if other == "import pydantic" else None
        return Row(ours.partition("\n")[0], pairs, limit, beside=other.partition("\n")[0])

    yield beside(IMPORT, "import pydantic")
    yield beside(PROGRAM, MODEL)
    yield beside(IMPORT, "pass")


def _process(folder: Path, program: str) -> Callable[[], float]:
    """Return a function that times a program in a new interpreter."""
    environment = {key: it for key, it in os.environ.items() if not key.startswith("PYTHON")}
    environment["PYTHONPYCACHEPREFIX"] = str(folder)
    command = [sys.executable, "-c", program]
    run = partial(subprocess.run, command, cwd=folder, env=environment, check=True)
    return lambda: median_time([run])
