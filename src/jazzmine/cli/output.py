"""What the program prints: to a person on a terminal, or to another program.

Stored text may hold anything, so it is printed with its control characters made visible: a
terminal obeys none of it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import IO, Any, cast

from pydantic import ValidationError
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from jazzmine.records.unreadable import reasons_of

__all__ = [
    "Refused",
    "block",
    "counted",
    "error_text",
    "errors",
    "errors_of",
    "fitted",
    "is_terminal",
    "line",
    "paged",
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
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# In a table that is too wide, what identifies a row keeps so many cells, and other text so many.
_SHORT_ID, _SHORT_TEXT = 13, 8
_GAP = 2


def _visible(control: re.Match[str]) -> str:
    code = ord(control[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def line(text: object) -> str:
    """Return text for one line of output, with its control characters visible."""
    return _OBEYED.sub(_visible, str(text).replace("\n", "\\n").replace("\t", "\\t"))


def block(text: str) -> str:
    """Return text for several lines of output: line breaks and tabs stay."""
    return "\n".join("\t".join(map(line, row.split("\t"))) for row in text.split("\n"))


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


def counted(count: int, plural: str) -> str:
    """Return a number of things in words: "1 working memory", "2,000 working memories"."""
    if count != 1:
        return f"{count:,} {plural}"
    return "1 " + re.sub(r"(\w+?)(ies|s)\b", _singular, plural, count=1)


def _singular(plural: re.Match[str]) -> str:
    return plural[1] + ("y" if plural[2] == "ies" else "")


def error_text(error: Exception) -> str:
    """Return what an error says to the user, without values that were refused."""
    if isinstance(error, ValidationError):
        return f"{error.title}: {reasons_of(error)}"
    return str(error)


def console() -> Console:
    """Return what prints to standard output, in colour on a terminal unless NO_COLOR is set."""
    return _console(stderr=False)


def errors() -> Console:
    """Return what prints to standard error."""
    return _console(stderr=True)


def _console(**where: Any) -> Console:
    # Rich leaves bold text bold under NO_COLOR.
    return _Console(
        **where,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )


@contextmanager
def paged() -> Iterator[None]:
    """Show what a block prints with the user's pager, on a terminal that it does not fit on."""
    screen = console()
    if not is_terminal() or screen.is_dumb_terminal:
        yield
        return
    pager = _Pager()
    pages = _console(file=cast("IO[str]", pager), width=screen.width, force_terminal=True)
    _pages.append(pages)
    try:
        yield
    except BrokenPipeError:
        if not pager.has_ended:
            raise
    finally:
        _pages.pop()
        pager.close()


class _Pager:
    """A file that the user's pager shows while it is written.

    Where no pager can be started, the text is printed.
    """

    encoding = "utf-8"

    def __init__(self) -> None:
        # As git does: end at once if all fits, keep colours, leave the text on the screen.
        given = {"LESS": "FRX", **os.environ}
        self._program: subprocess.Popen[str] | None = subprocess.Popen(
            os.environ.get("PAGER") or "less",
            shell=True,
            stdin=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=given,
        )
        # Until it is known that there is a pager.
        self._written: list[str] = []
        self.has_ended = False

    def write(self, text: str) -> int:
        """Show a text; BrokenPipeError says that the user has seen enough."""
        if self._program is None:
            return sys.stdout.write(text)
        if sum(map(len, self._written)) < _PIPE_HOLDS:
            self._written.append(text)
        try:
            self._stdin.write(text)
            self._stdin.flush()
        except BrokenPipeError:
            self._end()
            if self.has_ended:
                raise
        return len(text)

    def flush(self) -> None:
        """Do nothing: each text is passed on when it is written."""

    def close(self) -> None:
        """Wait until the user has seen enough."""
        if self._program is not None:
            self._end()

    def _end(self) -> None:
        program, self._program = self._program, None
        assert program is not None
        with suppress(BrokenPipeError):
            self._stdin_of(program).close()
        while program.poll() is None:
            with suppress(KeyboardInterrupt):  # the pager gets it, too, and goes on
                program.wait()
        self.has_ended = program.returncode not in _NOT_STARTED
        if not self.has_ended:
            sys.stdout.write("".join(self._written))

    @property
    def _stdin(self) -> IO[str]:
        assert self._program is not None
        return self._stdin_of(self._program)

    @staticmethod
    def _stdin_of(program: subprocess.Popen[str]) -> IO[str]:
        assert program.stdin is not None
        return program.stdin


class Refused(Exception):
    """What was asked for is not there, was refused, or differs: exit status 1."""


@contextmanager
def errors_of(name: object) -> Iterator[None]:
    """Distinguish the errors of a file that the user named, or of the output, from a store's."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Refused(f"{name}: {error.strerror or error}") from error


class _Console(Console):
    """A console that leaves it to the program what follows when nobody reads its output."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


# The exit statuses by which a shell says that it cannot execute a command, or finds none.
_NOT_STARTED = (126, 127)

# What a pipe to a pager takes at once: more was written only if something reads it.
_PIPE_HOLDS = 1_000_000

# What collects the output for a pager, while there is one.
_pages: list[Console] = []


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def write(text: str | Text) -> None:
    """Print a line (or lines) that `line` or `block` has made safe."""
    with errors_of("standard output"):
        _output().print(text)


def _output() -> Console:
    return _pages[-1] if _pages else console()


def say(text: str) -> None:
    """Write a note for the user of the terminal, beside the output."""
    errors().print(block(text))


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    is_unicode = sys.stdout.encoding.lower().startswith("utf")
    text = json.dumps(value, ensure_ascii=not is_unicode, separators=(",", ":"))
    with errors_of("standard output"):
        sys.stdout.write(_OBEYED_IN_JSON.sub(lambda mark: f"\\u{ord(mark[0]):04x}", text) + "\n")


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    ids: Collection[str] = (),
    times: Collection[str] = (),
    numbers: Collection[str] = (),
    dispensable: Sequence[str] = (),
    wide: bool = False,
) -> None:
    """Print rows: as a table on a terminal, else each as a line with tabs between the cells.

    Args:
        columns: the names of the columns.
        rows: their cells.
        ids: the columns that identify a row; where a terminal is too narrow, they keep both ends.
        times: the columns that hold times; they are never cut.
        numbers: the columns that hold numbers; neither are they.
        dispensable: the columns that are left out where a terminal is too narrow, in this order.
        wide: whether nothing is cut or left out.
    """
    if not is_terminal():
        for row in (columns, *rows):
            with errors_of("standard output"):
                sys.stdout.write("\t".join(map(line, row)) + "\n")
        return
    cells = [[line(cell) for cell in row] for row in rows]
    natural = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    output = _output()
    least = [
        width
        if name in (*times, *numbers)
        else min(width, _SHORT_ID if name in ids else _SHORT_TEXT)
        for name, width in zip(columns, natural, strict=True)
    ]
    kept = list(range(len(columns)))
    for name in () if wide else dispensable:
        if sum(least[index] + _GAP for index in kept) - _GAP <= output.width:
            break
        if name in columns:
            kept.remove(columns.index(name))
    left_out = len(columns) - len(kept)
    widths = [natural[index] for index in kept]
    if not wide:
        room = output.width - _GAP * (len(kept) - 1)
        widths = fitted(widths, [least[index] for index in kept], room)
    head = Text(style="bold")
    for row_cells in (columns, *cells):
        row_text = head if row_cells is columns else Text()
        for index, width in zip(kept, widths, strict=True):
            name = columns[index]
            text = _cut(row_cells[index], width, in_the_middle=name in ids)
            gap = " " * (width - cell_len(text))
            row_text.append(gap + text if name in numbers else text + gap).append(" " * _GAP)
        row_text.rstrip()
        output.print(row_text)
    if left_out:
        note = f"{counted(left_out, 'columns')} left out (--wide)"
        output.print(Text(note, style="dim"))


def fitted(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return the widths of columns that fit into a room, the widest cut first.

    Args:
        natural: the width of each column, in cells, when nothing is cut.
        least: what none of them goes below; all of them together may need more than there is.
        room: the width of all of them together.
    """
    widths = list(natural)
    while sum(widths) > room:
        spare = [width - low for width, low in zip(widths, least, strict=True)]
        if max(spare) == 0:
            break
        widest = max(range(len(widths)), key=lambda i: (spare[i] > 0, widths[i]))
        widths[widest] -= 1
    return widths


def _cut(text: str, width: int, in_the_middle: bool) -> str:
    if cell_len(text) <= width:
        return text
    if not in_the_middle:
        return set_cell_size(text, width - 1).rstrip() + "…"
    end = (width - 1) // 2
    return set_cell_size(text, width - 1 - end).rstrip() + "…" + text[len(text) - end :]
