"""The command line: measure the stores, and print the tables in Markdown."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from benchmarks.frame.__main__ import FOLDER
from benchmarks.rivals import cost, integrity, tables
from benchmarks.rivals.places import Place, PostgreSQL, SQLite
from benchmarks.rivals.processes import opened, processes
from benchmarks.rivals.rivals import RIVALS, Rival
from tests.servers.postgres import Server, port_of

Found = dict[str, Any]


class Run:
    """One run over all scenarios, with what was found so far."""

    def __init__(self, options: argparse.Namespace, scratch: str, memory: str, dsn: str) -> None:
        self.found: dict[str, Found] = {}
        self._options, self._dsn = options, dsn
        self._scratch, self._memory = scratch, memory

    def measure(self, rival: Rival) -> None:
        """Run every scenario on a store; one that fails does not stop the others."""
        o = self._options
        victims = -(-o.kills // o.sessions_of_kill)
        with ExitStack() as stack:
            enter = stack.enter_context
            workers = enter(processes(rival, max(o.processes, victims + 1)))
            clocks = enter(processes(rival, 2, own_clock=True))
            worker, victims_first = workers[0], workers[1 : victims + 1]

            def ask(name: str, call: Callable[[Place], integrity.Figures], **how: bool) -> None:
                self._ask(rival, name, call, **how)

            ask("at once", lambda at: integrity.at_once(workers[: o.processes], at, o.each))
            if rival.kind == "PostgreSQL":
                port = port_of(self._dsn)
                ask("dropped", lambda at: integrity.reply_dropped(worker, at, port))
                ask("ahead", lambda at: integrity.clock_ahead(clocks, at, o.alternating))
            ask("stopped", lambda at: integrity.clock_stopped(clocks, at, o.alternating))
            ask("erased", lambda at: integrity.erased(worker, at))
            reads = max(o.times // 10, 5)
            long = o.turns, o.long, reads
            ask("long", lambda at: cost.long_session(worker, at, *long), unsafe=True)
            ask("lists", lambda at: cost.lists(worker, at, o.sessions, reads), unsafe=True)
            kills = o.sessions_of_kill
            ask("killed", lambda at: integrity.killed(worker, victims_first, at, kills))
        statement = rival.adapter.imports
        ask("weight", lambda at: cost.weight(rival.environment, statement, 5))

    def race(self, rivals: Sequence[Rival]) -> None:
        """Time the calls of all stores in turn."""
        with ExitStack() as stack:
            workers = {}
            for rival in rivals:
                [worker] = stack.enter_context(processes(rival, 1))
                stack.enter_context(opened([worker], self._place(rival).address))
                workers[rival.label] = worker
            for label, figures in cost.calls(workers, self._options.times).items():
                self.found[label]["calls"] = figures

    def _ask(
        self,
        rival: Rival,
        name: str,
        call: Callable[[Place], integrity.Figures],
        unsafe: bool = False,
    ) -> None:
        """Run a scenario on an empty database; an `unsafe` one flushes nothing to the disk."""
        started, found = time.perf_counter(), self.found.setdefault(rival.label, {})
        try:
            found[name] = call(self._place(rival, unsafe))
        except Exception as error:
            traceback.print_exc()
            found[name] = {"error": f"{type(error).__name__}: {error}"[-600:]}
        took = time.perf_counter() - started
        print(f"{rival.label}: {name} ({took:.0f} s) {found[name]}", file=sys.stderr, flush=True)

    def _place(self, rival: Rival, unsafe: bool = False) -> Place:
        if rival.kind == "SQLite":
            return SQLite(Path(mkdtemp(dir=self._memory if unsafe else self._scratch)))
        place = PostgreSQL(self._dsn)
        if unsafe:
            place.forget_durability()
        return place


def main() -> int:
    """Return 0, or 1 if a scenario failed; the measured values do not affect the exit status."""
    options = _options()
    machine = (
        f"Python {platform.python_version()}, {os.cpu_count()} cores,"
        f" load {os.getloadavg()[0]:.1f} at the start"
    )
    common = FOLDER / ".tmp"
    common.mkdir(exist_ok=True)
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with (
        TemporaryDirectory(dir=common) as scratch,
        TemporaryDirectory(dir=memory) as fast,
        Server("18", fsync=True) as server,
    ):
        run = Run(options, scratch, fast, server.dsn)

        def keep() -> None:
            if options.json:
                report = {"machine": machine, "options": vars(options), "found": run.found}
                options.json.write_text(json.dumps(report, indent=1, default=str) + "\n")

        words = options.only or [""]
        rivals = [rival for rival in RIVALS if any(word in rival.label for word in words)]
        for rival in rivals:
            run.measure(rival)
            keep()
        run.race(rivals)
        keep()
    with suppress(OSError):
        common.rmdir()
    print(machine, *tables.tables(run.found), sep="\n\n")
    return int(any("error" in each for found in run.found.values() for each in found.values()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/rivals/run", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="stores whose names have a word")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the raw figures")
    for name, default, text in (
        ("processes", 8, "that write to one session"),
        ("each", 200, "messages of each of them"),
        ("kills", 100, "sessions that are in a turn when their process is killed"),
        ("sessions-of-kill", 20, "sessions of a process that is killed"),
        ("alternating", 40, "messages of two processes with unequal or stopped clocks"),
        ("times", 200, "calls of each kind that are timed"),
        ("long", 10_000, "messages of a long session"),
        ("turns", 1_000, "turns before the bytes of one are counted"),
        ("sessions", 10_000, "sessions of a user who lists them"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=text)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
