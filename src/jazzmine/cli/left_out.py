"""Notice that records of a store could not be read, and are missing in what was written."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from jazzmine.cli.output import Refused, say
from jazzmine.records import unreadable

__all__ = ["nothing_left_out"]


@contextmanager
def nothing_left_out() -> Iterator[None]:
    """Print which records a block leaves out because they cannot be read.

    Raises:
        Refused: at the end of the block, if there were any.
    """
    printed = _Printed(logging.ERROR)
    unreadable.logger.addHandler(printed)
    try:
        yield
    finally:
        unreadable.logger.removeHandler(printed)
    if printed.count:
        raise Refused(f"records that cannot be read were left out: {printed.count:,}, named above")


class _Printed(logging.Handler):
    """Prints the log of the records that are left out, one line for each."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        say(record.getMessage())
