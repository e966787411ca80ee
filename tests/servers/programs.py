"""Python programs that begin with the library and its drivers imported.

A fresh interpreter takes half a second of a processor to import them, and the tests start hundreds
of programs. These are forked from a process that has imported everything and done nothing else.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import types
from collections.abc import Mapping, Sequence
from multiprocessing import reduction
from typing import Any

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        *("pymongo", "psycopg_pool", "redis.asyncio", "jazzmine.cli.app", "rich.markdown"),
        *("jazzmine.core.message_store", "jazzmine.sync.message_store"),
        *("jazzmine.sync.working_memory", "jazzmine.sync.long_term_memory"),
        *("jazzmine.inspector.app", "uvicorn", "tests.behaviour.samples"),
    ]
)


class Program(subprocess.Popen[Any]):
    """`subprocess.Popen` for `[sys.executable, …]` with `-c` code, `-m` a module, or a script.

    Functions that were registered with `atexit` run at its end. It is killed with this process.
    """

    def _execute_child(self, args: Sequence[Any], *given: Any) -> None:
        cwd, env, pipes = given[4], given[5], given[9:15]
        used = (pipes[0], pipes[3], pipes[5])  # the program's ends
        ends = [number if end == -1 else end for number, end in enumerate(used)]
        command = [os.fsdecode(one) for one in args[1:]]
        environment = dict(os.environ if env is None else env)
        work = (command, cwd or os.getcwd(), environment, *map(_Descriptor, ends))
        self._forked = _FORKS.Process(target=_begin, args=work, daemon=True)
        self._forked.start()
        assert self._forked.pid is not None
        self.pid = self._forked.pid
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            self.returncode = self._forked.exitcode
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        self._forked.join(timeout)
        if self._internal_poll() is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self.returncode


def run_python(
    command: Sequence[Any],
    *,
    input: str | bytes | None = None,
    timeout: float | None = None,
    check: bool = False,
    capture_output: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Do what `subprocess.run` does, with a `Program`."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with Program(command, **options) as program:
        try:
            output, errors = program.communicate(input, timeout)
        except BaseException:
            program.kill()
            raise
    ran = subprocess.CompletedProcess(command, program.returncode, output, errors)
    if check:
        ran.check_returncode()
    return ran


class _Descriptor:
    """A descriptor that the program inherits."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, tuple[Any]]:
        return _inherited, (reduction.DupFd(self._number),)


def _inherited(sent: Any) -> int:
    return int(sent.detach())


def _begin(command: list[str], cwd: str, environment: Mapping[str, str], *ends: int) -> None:
    for number, end in enumerate(ends):
        os.dup2(end, number)
        os.close(end)
    encoding = environment.get("PYTHONIOENCODING")
    sys.stdin, sys.stdout = open(0, encoding=encoding), open(1, "w", encoding=encoding)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding=encoding)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    try:
        _execute(*command)
    finally:
        atexit._run_exitfuncs()


def _execute(what: str, *arguments: str) -> None:
    sys.argv = [what, *arguments[1:]] if what in ("-c", "-m") else [what, *arguments]
    if what == "-m":
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif what == "-c":
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(arguments[0], "<string>", "exec"), vars(main))
    else:
        runpy.run_path(what, run_name="__main__")
