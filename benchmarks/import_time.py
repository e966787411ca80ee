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
from pathlib import Path
from time import perf_counter

from benchmarks.frame.lab import Lab, alternate
from benchmarks.frame.results import Row, within
from benchmarks.frame.scenario import Figures

ROUNDS = 21

IMPORT = "import jazzmine.sync.message_store"
PROGRAM = "from jazzmine.sync.message_store import MessageStore, Message\nMessageStore, Message"
MODEL = "from pydantic import BaseModel\nclass Thing(BaseModel): name: str"


def answer(lab: Lab) -> Iterator[Row]:
    folder = lab.folder()
    found = alternate(_process(folder, IMPORT), _process(folder, "import pydantic"), ROUNDS)
    yield Row(IMPORT, found["seconds"], within(1.5), beside="import pydantic")
    found = alternate(_process(folder, PROGRAM), _process(folder, MODEL), ROUNDS)
    label = "from jazzmine.sync.message_store import …"
    yield Row(label, found["seconds"], beside="one pydantic model")
    found = alternate(_process(folder, IMPORT), _process(folder, "pass"), ROUNDS)
    yield Row(IMPORT, found["seconds"], beside="an empty program")


def _process(folder: Path, program: str) -> Callable[[], Figures]:
    """Return a function that runs a program in a new interpreter."""
    environment = {key: it for key, it in os.environ.items() if not key.startswith("PYTHON")}
    environment["PYTHONPYCACHEPREFIX"] = str(folder)
    command = [sys.executable, "-c", program]

    def run() -> Figures:
        started = perf_counter()
        subprocess.run(command, cwd=folder, env=environment, check=True)
        return {"seconds": perf_counter() - started}

    return run
