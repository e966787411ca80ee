"""What the program prints: to a person on a terminal, or to another program.

Stored text may hold anything, so it is printed with its control characters made visible: a
terminal obeys none of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from html import escape
from io import StringIO
from typing import Any, Literal, TypeVar

from pydantic import ValidationError
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jazzmine.inspector.text import CONTROLS, visible
from jazzmine.inspector.text import when as moment
from jazzmine.records.unreadable import reasons_of

T = TypeVar("T")

# In a table that is too wide, a text keeps so many cells.
_SHORT = 10
_GAP = 2
_TIMES = ("started", "updated")

# After the scheme and the user of a URL, whose slashes may be those of a path by now.
_PASSWORDS = re.compile(r"(:/+[^\s:/@]*:)(?!PASSWORD@)\S+@")


def line(text: object) -> str:
    """Return text for one line of output, with its control characters visible."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def shown(text: object, style: str = "") -> Text:
    """Return text for one line, in a style that only a terminal shows."""
    return Text(line(text), style=style)


def when(ms: int) -> str:
    """Return a time in ms as UTC, or as it is where no calendar has it."""
    return moment(ms, "%Y-%m-%d %H:%M:%SZ")


def counted(count: int, plural: str) -> str:
    """Return a number of things in words: "1 working memory", "2,000 working memories"."""
    if count != 1:
        return f"{count:,} {plural}"
    return "1 " + re.sub(r"(ie)?s\b", lambda end: "y" if end[1] else "", plural, count=1)


def error_text(error: Exception) -> str:
    """Return what an error says to the user, without passwords and values that were refused."""
    if isinstance(error, ValidationError):
        return f"{error.title}: {reasons_of(error)}"
    return without_passwords(str(error))


def without_passwords(text: str) -> str:
    """Return a text without the passwords of URLs, which a user may have put in a wrong place."""
    return _PASSWORDS.sub(r"\1…@", text)


class _Console(Console):
    """A console that leaves it to the program what follows when nobody reads its output."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(**where: Any) -> Console:
    """Return what prints, in colour on a terminal unless NO_COLOR is set."""
    return _Console(**where, highlight=False, markup=False, emoji=False, soft_wrap=True)


# What records the output, while it becomes a page.
_recording: list[Console] = []


def as_page(title: str, show: Callable[[], None]) -> str:
    """Return what a function shows as one HTML file, for reading and printing."""
    recorded = console(file=StringIO(), record=True, force_terminal=True, width=100)
    _recording.append(recorded)
    try:
        show()
    finally:
        _recording.pop()
    head = _PAGE.replace("{title}", escape(title).replace("{", "{{").replace("}", "}}"))
    return recorded.export_html(inline_styles=True, code_format=head)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title><style>
pre {{ font: 15px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
  white-space: pre-wrap; overflow-wrap: anywhere }}
</style></head><body><main><pre dir="auto">{code}</pre></main></body></html>
"""


class Refused(Exception):
    """What was asked for is not there, was refused, or differs: exit status 1."""


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def write(text: str | Text) -> None:
    """Print a line (or lines) that `line` or `visible` has made safe."""
    _output().print(text)


def _output() -> Console:
    return _recording[-1] if _recording else console()


def say(text: str) -> None:
    """Write a note for the user of the terminal, beside the output."""
    console(stderr=True).print(visible(text))


def first_of(records: list[T], limit: int) -> list[T]:
    """Return the first `limit` records of more, and say beside the output that there are more."""
    if len(records) > limit:
        say(f"more than {limit:,}: these are the first (--limit)")
    return records[:limit]


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    is_unicode = sys.stdout.encoding.lower().startswith("utf")
    text = json.dumps(value, ensure_ascii=not is_unicode, separators=(",", ":"))
    sys.stdout.write(escaped(text) + "\n")


def escaped(text: str) -> str:
    """Return JSON in which control characters are escapes."""
    return CONTROLS.sub(lambda mark: f"\\u{ord(mark[0]):04x}", text)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Collection[str] = (),
) -> None:
    """Print rows: as a table on a terminal, else each as a line with tabs between the cells.

    Where a terminal is too narrow, all but times and numbers are cut.
    """
    cells = [list(map(line, row)) for row in (columns, *rows)]
    if not is_terminal():
        sys.stdout.writelines("\t".join(row) + "\n" for row in cells)
        return
    table, least = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0)), -_GAP
    for name, *texts in zip(*cells, strict=True):
        width = max(map(cell_len, (name, *texts)))
        is_whole = name in (*_TIMES, *numbers)
        shortest = width if is_whole else min(width, _SHORT)
        justify: Literal["left", "right"] = "right" if name in numbers else "left"
        table.add_column(name, justify=justify, no_wrap=is_whole, min_width=shortest)
        least += shortest + _GAP
    if least > _output().width:
        table.width = least  # the last columns are not seen
    for row in cells[1:]:
        table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in row))
    _output().print(table, soft_wrap=False)
