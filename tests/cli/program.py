"""Runs the program `jazzmine`: in this process, or as a program of its own."""

from __future__ import annotations

import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from jazzmine.records.base import RecordKind
from jazzmine.sync import MessageStore
from jazzmine.sync.maintenance import iter_records
from tests.servers.programs import Program, run_python

_KINDS: tuple[RecordKind, ...] = ("conversations", "messages", "traces")

COMMAND = [sys.executable, "-m", "jazzmine"]


class Ran(NamedTuple):
    """What a run printed, and its exit status."""

    status: int
    output: str
    errors: str


def run(*arguments: str, stdin: str | None = None, env: Mapping[str, str] | None = None) -> Ran:
    """Run the program in this process, with no terminal."""
    from typer.testing import CliRunner

    from jazzmine.cli.app import app

    names = ("MESSAGE_STORE", "WORKING_MEMORY", "LONG_TERM_MEMORY")
    given = {**{f"JAZZMINE_{name}": None for name in names}, **(env or {})}
    result = CliRunner().invoke(app, list(arguments), input=stdin, env=given)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a program without any store of the user's."""
    kept = {name: os.environ[name] for name in os.environ if not name.startswith("JAZZMINE_")}
    return {**kept, "COLUMNS": "100", **more}


def stopped_copy(source: str, *, target: Path, end: signal.Signals) -> tuple[int, str]:
    """Stop `copy` by a signal once it has stored something; return its status, and its errors."""
    program = Program(
        [*COMMAND, "copy", source, f"sqlite:{target}"],
        env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until = time.monotonic() + 60
    while not _stored_messages(target):
        assert program.poll() is None
        assert time.monotonic() < until
    program.send_signal(end)
    _, errors = program.communicate(timeout=240)
    return program.returncode, errors


def _stored_messages(path: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            [count] = connection.execute("SELECT count(*) FROM stored_messages").fetchone()
            return int(count)
    except sqlite3.OperationalError:  # there is no file or no table yet
        return 0


def run_program(*arguments: str, stdin: str = "", **more: str) -> Ran:
    """Run the program as one of its own."""
    ran = run_python(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment(**more),
        timeout=120,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def on_terminal(*arguments: str, **more: str) -> str:
    """Run the program on a terminal, and return what it wrote there."""
    ours, theirs = pty.openpty()
    given = environment(**{"TERM": "xterm-256color", **more})
    with Program(
        [*COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=given
    ) as program:
        os.close(theirs)
        written = b""
        try:
            while some := os.read(ours, 65536):
                written += some
        except OSError:  # the other end is closed
            pass
        program.wait(240)
    os.close(ours)
    return written.decode()


def objects(text: str) -> list[Any]:
    """Return the values of a text of JSON Lines."""
    return [json.loads(line) for line in text.split("\n") if line]


def all_records(url: str) -> dict[str, list[Any]]:
    """Return all records of a store, in the order in which they were first stored."""
    with MessageStore.initialize(url) as store:
        return {
            kind: [record for _, batch in iter_records(store, [kind], 2) for record in batch]
            for kind in _KINDS
        }


def diagnosed(*arguments: str) -> tuple[int, list[dict[str, str]]]:
    """Return the exit status of `doctor`, and what it found wrong."""
    ran = run("doctor", "--json", *arguments)
    found = [one for one in objects(ran.output) if one["level"] != "ok"]
    assert all(one["cure"] for one in found)
    return ran.status, found


def one_found(*arguments: str) -> tuple[int, dict[str, str]]:
    """Return the exit status of `doctor`, and the one thing that it found wrong."""
    status, found = diagnosed(*arguments)
    assert len(found) == 1, found
    return status, found[0]
