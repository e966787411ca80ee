"""The command line, `jazzmine`: see what is stored, move it, and find out what is wrong."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the program `jazzmine` with the arguments of this process."""
    try:
        from jazzmine.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        print("The command line needs an extra: pip install 'jazzmine[cli]>=1.2'", file=sys.stderr)
        raise SystemExit(2) from None
    # Where the caller has closed them (`>&-`), Python has none, and a file would get the number.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    app(prog_name="jazzmine")
