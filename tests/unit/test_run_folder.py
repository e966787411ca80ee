"""The files of a test run are removed with it; those of a killed run with the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers import run_folder

ROOT = Path(__file__).resolve().parents[2]

ENTER = """
import sys, time
from tests.servers import run_folder
folder = run_folder.new_folder("server")
server = run_folder.start("sleep", ["sleep", "600"])
print(run_folder.entered(), server.pid, flush=True)
closed = folder / "closed"
closed.mkdir()
(closed / "file").touch()
closed.chmod(0o000)
if sys.stdin.read() == "crash":
    raise SystemError
"""

FAIL = """
import sys
from tests.servers import run_folder
run_folder.entered()
if sys.argv[1] == "started before":
    run_folder.has_started("A server")
print(type(error := run_folder.cannot_start("A server", ["serve", "a b"], "said", 1)).__name__)
print(error)
try:
    run_folder.new_folder("another")
except run_folder.CannotStartError as error:
    print(error)
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder for temporary files, which the servers' user may enter."""
    for folder in (tmp_path, *tmp_path.parents):
        if os.getuid() == 0 and folder.owner() == "root" and folder.stat().st_mode & 0o011 != 0o011:
            folder.chmod(folder.stat().st_mode | 0o011)
    base = tmp_path / "a base"
    base.mkdir(mode=0o755)
    return base


@contextmanager
def run(base: Path) -> Iterator[tuple[subprocess.Popen[str], Path, int]]:
    """A run in a process of its own, with its folder and its server's process id."""
    process = subprocess.Popen(
        [sys.executable, "-c", ENTER],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(base)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process, process.stdin, process.stdout:
        folder, _, pid = process.stdout.readline().rpartition(" ")
        yield process, Path(folder), int(pid)


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def gone(pid: int) -> bool:
    until = time.monotonic() + 5
    while runs(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not runs(pid)


@pytest.mark.parametrize("end", ["", "crash"])
def test_all_goes_with_the_run(base: Path, end: str) -> None:
    with run(base) as (process, folder, server):
        assert folder.parent == base
        assert runs(server)
        process.communicate(end)
    assert list(base.iterdir()) == []
    assert gone(server)


def test_the_files_of_a_killed_run_are_removed_by_the_next(base: Path) -> None:
    with run(base) as (process, folder, server):
        process.kill()
    assert folder.exists()
    assert runs(server)
    with run(base):
        assert not folder.exists()
        assert gone(server)


def test_files_that_a_run_uses_stay(base: Path) -> None:
    with run(base) as (_, folder, server):
        with run(base):
            pass
        assert folder.exists()
        assert runs(server)


def test_a_new_folder_and_a_link_stay(base: Path) -> None:
    new = base / "jazzmine-tests-new"
    new.mkdir()
    elsewhere = base / "elsewhere"
    elsewhere.mkdir()
    (base / "jazzmine-tests-link").symlink_to(elsewhere)
    with run(base):
        pass
    assert new.exists()
    assert elsewhere.exists()


def test_a_process_that_has_got_the_number_of_a_server_lives(base: Path) -> None:
    with run(base) as (process, folder, server):
        process.kill()
    (folder / "processes" / str(os.getpid())).write_text("1")
    os.kill(server, signal.SIGKILL)
    with run(base):
        assert not folder.exists()


def fail(base: Path, before: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", FAIL, before],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(base)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def test_a_server_that_never_started_is_not_tried_again(base: Path) -> None:
    assert fail(base, "") == (
        "CannotStartError\n"
        "the tests need A server, which does not start here:\n"
        "serve 'a b'\nsaid\n(its exit status was 1)\n"
        "the run is ending, as the tests need A server, which does not start here\n"
    )


def test_a_server_that_started_before_may_fail_once(base: Path) -> None:
    assert fail(base, "started before") == (
        "RuntimeError\nA server did not start:\nserve 'a b'\nsaid\n(its exit status was 1)\n"
    )


def test_a_program_that_is_missing_cannot_start(base: Path) -> None:
    script = "from tests.servers import run_folder; run_folder.start('A server', ['/no/program'])"
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(base)},
        capture_output=True,
        text=True,
    )
    assert "CannotStartError: the tests need A server, which does not start here" in ran.stderr
    assert "No such file or directory: '/no/program'" in ran.stderr


def test_a_run_without_servers_skips_what_starts_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "_refused", [])
    run_folder.refuse_servers()
    with pytest.raises(pytest.skip.Exception, match="need a server"):
        run_folder.new_folder("server")
