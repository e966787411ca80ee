"""What the program prints: to a person on a terminal, or to another program.

Stored text may hold anything, so it is printed with its control characters made visible: a
terminal obeys none of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = [
    "block",
    "errors",
    "is_terminal",
    "line",
    "print_json",
    "print_table",
    "say",
    "shown",
    "when",
    "write",
]

# Controls, the marks that change the direction of text or hide it, and halves of surrogates.
_OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_OBEYED_IN_JSON = re.compile(_OBEYED.pattern.replace("\\x00-\\x1f", ""))
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def line(text: object) -> str:
    """Return text for one line of output, with its control characters visible."""
    return _OBEYED.sub(_visible, str(text).replace("\n", "\\n").replace("\t", "\\t"))


def block(text: str) -> str:
    """Return text for several lines of output: line breaks and tabs stay."""
    return "\n".join("\t".join(map(line, one.split("\t"))) for one in text.split("\n"))


def shown(text: object, style: str = "") -> Text:
    """Return text for one line, in a style that only a terminal shows."""
    return Text(line(text), style=style)


def when(ms: int) -> str:
    """Return a time in ms as UTC, or as it is where no calendar has it."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"


def console() -> Console:
    """Return what prints to standard output, in colour on a terminal unless NO_COLOR is set."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def errors() -> Console:
    """Return what prints to standard error."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def write(text: str | Text) -> None:
    """Print a line (or lines) that `line` or `block` has made safe."""
    console().print(text)


def say(text: str) -> None:
    """Write a note for the user of the terminal, beside the output."""
    errors().print(block(text))


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    sys.stdout.write(_OBEYED_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[str] = ()
) -> None:
    """Print rows: as a table on a terminal, else each as a line with tabs between the cells.

    Args:
        columns: the names of the columns.
        numbers: the columns that hold numbers.
    """
    if not is_terminal():
        sys.stdout.write("\t".join(columns) + "\n")
        for row in rows:
            sys.stdout.write("\t".join(map(line, row)) + "\n")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        if name in numbers:
            table.add_column(name, justify="right", no_wrap=True)
        else:
            table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(shown(cell) for cell in row))
    console().print(table, soft_wrap=False)
