"""PgBouncer in transaction mode in front of a PostgreSQL server, where it is installed."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from tests.servers import run_folder
from tests.servers.postgres import answers, changed, dsn
from tests.servers.process import free_port

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
MISSING = "" if PROGRAM else "no PgBouncer is installed here (apt-get install pgbouncer)"

_SETTINGS = """\
[databases]
* = host={host} port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = 4
logfile = {folder}/log
"""


@contextmanager
def in_front_of(address: str) -> Iterator[str]:
    """Start a PgBouncer for the server of a DSN, and return the PgBouncer's DSN."""
    assert PROGRAM is not None
    folder = run_folder.new_folder("pgbouncer")
    parts, port = conninfo_to_dict(address), free_port()
    host, server = parts.get("host") or "127.0.0.1", parts.get("port") or 5432
    settings = _SETTINGS.format(host=host, server=server, port=port, folder=folder)
    (folder / "ini").write_text(settings)
    (folder / "users").write_text(f'"{parts.get("user")}" "{parts.get("password") or ""}"\n')
    run_folder.give_to_server_user(folder, *folder.iterdir())
    command = [PROGRAM, str(folder / "ini")]
    process = run_folder.start(
        "PgBouncer", command, cwd=folder, stderr=subprocess.DEVNULL, **run_folder.server_user()
    )
    bouncer = changed(address, host="127.0.0.1", port=port)
    try:
        until = time.monotonic() + 20
        while not answers(bouncer):
            if process.poll() is not None or time.monotonic() > until:
                raise run_folder.cannot_start("PgBouncer", command, _said(folder), process.poll())
            time.sleep(0.05)
        yield bouncer
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _said(folder: Path) -> str:
    log = folder / "log"
    return log.read_text() if log.exists() else "(it wrote no log)"


@cache
def running() -> str:
    """Return the DSN of a PgBouncer for the tests' server that runs until the tests end."""
    front = in_front_of(dsn())
    atexit.register(front.__exit__, None, None, None)
    return front.__enter__()
