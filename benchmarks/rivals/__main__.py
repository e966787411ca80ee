"""The command line: measure the stores, and print what the documentation shows of a run."""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import psycopg

from benchmarks.frame.__main__ import FOLDER
from benchmarks.rivals import cost, integrity, tables
from benchmarks.rivals.places import Place, PostgreSQL, SQLite
from benchmarks.rivals.rivals import RIVALS, Rival
from benchmarks.rivals.workers import Worker, opened, processes
from tests.servers.postgres import Server, port_of

Figures = dict[str, Any]

# What each size is in a whole run, and in a short one, which only shows that all of it works.
_SIZES = (
    ("processes", 8, 3, "processes that write to one session"),
    ("each", 200, 20, "messages of each of them"),
    ("kills", 100, 3, "processes that are killed in a turn"),
    ("alternating", 40, 10, "messages of two processes with unequal clocks"),
    ("times", 200, 20, "calls of each kind that are timed"),
    ("long", 10_000, 400, "messages of a long session"),
    ("turns", 1_000, 50, "turns before the bytes of one are counted"),
)


class Run:
    """One run over all scenarios.

    Attributes:
        stores: the figures of each scenario by its name, by store.
    """

    def __init__(self, options: argparse.Namespace, scratch: str, memory: str, dsn: str) -> None:
        self.stores: dict[str, Figures] = {}
        self._options, self._dsn = options, dsn
        self._scratch, self._memory = scratch, memory

    def measure(self, rival: Rival) -> None:
        """Run every scenario on a store; one that fails does not stop the others."""
        o = self._options

        def scenario(
            name: str,
            count: int,
            call: Callable[[Sequence[Worker], Place], integrity.Figures],
            own_clock: bool = False,
            unsafe: bool = False,
        ) -> None:
            """Run a scenario on an empty database; an `unsafe` one flushes nothing to the disk."""
            started = time.perf_counter()
            figures: Figures
            try:
                with processes(rival, count, own_clock=own_clock) as workers:
                    figures = call(workers, self._place(rival, unsafe))
            except Exception as error:
                figures = _failure(error)
            self.stores.setdefault(rival.label, {})[name] = figures
            seconds = time.perf_counter() - started
            print(f"{rival.label}: {name} ({seconds:.0f} s) {figures}", file=sys.stderr, flush=True)

        scenario("at once", o.processes, lambda w, at: integrity.at_once(w, at, o.each))
        if rival.kind == "PostgreSQL":
            port = port_of(self._dsn)
            scenario("dropped", 1, lambda w, at: integrity.reply_dropped(w[0], at, port))
            scenario("ahead", 2, lambda w, at: integrity.clock_ahead(w, at, o.alternating), True)
        scenario("erased", 1, lambda w, at: integrity.erased(w[0], at))
        scenario("killed", 2, lambda w, at: integrity.killed(w[0], w[1], at, o.kills))
        sizes = o.turns, o.long, max(o.times // 10, 5)
        scenario("long", 1, lambda w, at: cost.long_session(w[0], at, *sizes), unsafe=True)

    def race(self, rivals: Sequence[Rival]) -> None:
        """Time the calls of all stores in turn; one that fails drops out."""
        racers = {rival.label: self._racer(rival) for rival in rivals}
        while racers:
            for label, racer in list(racers.items()):
                try:
                    next(racer)
                    continue
                except StopIteration as end:
                    figures = end.value
                except Exception as error:
                    figures = _failure(error)
                self.stores.setdefault(label, {})["calls"] = figures
                del racers[label]

    def has_failures(self) -> bool:
        return any("error" in each for results in self.stores.values() for each in results.values())

    def _racer(self, rival: Rival) -> Generator[None, None, Figures]:
        with processes(rival, 1) as [worker], opened([worker], self._place(rival).address):
            return (yield from cost.calls(worker, self._options.times))

    def _place(self, rival: Rival, unsafe: bool = False) -> Place:
        if rival.kind == "SQLite":
            return SQLite(Path(mkdtemp(dir=self._memory if unsafe else self._scratch)))
        place = PostgreSQL(self._dsn)
        if unsafe:
            place.forget_durability()
        return place


def _failure(error: Exception) -> Figures:
    traceback.print_exception(error)
    return {"error": f"{type(error).__name__}: {error}"[-600:]}


def main() -> int:
    """Return 0, or 1 if a scenario failed; the measured values do not affect the exit status."""
    options = command_line()
    load = os.getloadavg()[0]
    common = FOLDER / ".tmp"
    common.mkdir(exist_ok=True)
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with (
        TemporaryDirectory(dir=common) as scratch,
        TemporaryDirectory(dir=memory) as fast,
        Server("18", fsync=True) as server,
    ):
        run = Run(options, scratch, fast, server.dsn)
        words = options.only or [""]
        rivals = [rival for rival in RIVALS if any(word in rival.label for word in words)]
        for rival in rivals:
            run.measure(rival)
        run.race(rivals)
        machine = _machine(server.dsn, load)
    with suppress(OSError):
        common.rmdir()
    print(*tables.report(machine, run.stores), sep="\n\n")
    return int(run.has_failures())


def _machine(dsn: str, load: float) -> str:
    with psycopg.connect(dsn) as connection:
        server = connection.info.parameter_status("server_version")
    return (
        f"Python {platform.python_version()}, PostgreSQL {server}, SQLite"
        f" {sqlite3.sqlite_version}, {platform.system()}, {os.cpu_count()} cores with a load of"
        f" {load:.1f} at the start and {os.getloadavg()[0]:.1f} at the end"
    )


def command_line() -> argparse.Namespace:
    """Return the options, with the sizes of a whole or of a short run."""
    parser = argparse.ArgumentParser(prog="benchmarks/rivals/run", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="stores whose names have a word")
    parser.add_argument("--short", action="store_true", help="small sizes: does everything work?")
    for name, whole, short, text in _SIZES:
        text = f"{text}; {whole:,}, or {short:,} in a short run"
        parser.add_argument(f"--{name}", type=int, metavar="N", help=text)
    options = parser.parse_args()
    for name, whole, short, _ in _SIZES:
        if getattr(options, name) is None:
            setattr(options, name, short if options.short else whole)
    return options


if __name__ == "__main__":
    sys.exit(main())
