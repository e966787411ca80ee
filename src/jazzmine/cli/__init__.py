"""The command line, `jazzmine`: see what is stored, move it, and find out what is wrong."""

from __future__ import annotations

import os
import signal
import sys
from io import TextIOWrapper

from jazzmine.extras import extra


def main() -> None:
    """Run the program `jazzmine` with the arguments of this process."""
    try:
        with extra("cli", "the command line"):
            from jazzmine.cli.app import app
    except ImportError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # a parent closed it: no other file may get its number
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "r+"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # which may not hold every character
            stream.reconfigure(errors="replace")
    # `docker stop` and `timeout` leave no unfinished file, as Ctrl-C does not.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    app(prog_name="jazzmine")
