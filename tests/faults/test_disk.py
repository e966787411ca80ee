"""Each system call on a store's files fails in turn, and each write waits for the disk."""

from __future__ import annotations

import json
import os
import random
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation
from tests.faults.disk_steps import NOTHING, STEPS, State, open_store, path_of, seen
from tests.faults.sizes import SOAK, report, some


def _can_trace() -> bool:
    try:
        ran = subprocess.run(["strace", "-qq", "true"], check=False, capture_output=True)
    except FileNotFoundError:
        return False
    return ran.returncode == 0


FAILING = {
    "write": ["EIO", "ENOSPC"],
    "fsync": ["EIO"],
    "rename": ["EIO"],
    "pwrite64": ["EIO", "ENOSPC"],
    "fdatasync": ["EIO"],
    "ftruncate": ["EIO"],
    "openat": ["EMFILE", "EACCES"],
    "unlink": ["EIO"],
    "fcntl": ["ENOLCK", "EIO"],
    "pread64": ["EIO"],
    "fallocate": ["ENOSPC"],
    "fstat": ["EIO"],
    "newfstatat": ["EIO"],
    "mmap": ["ENOMEM"],
}


def traced(folder: Path, kind: str, end: str, *options: str) -> tuple[str, str]:
    """Return what `disk_steps` printed, and its system calls on the store's files."""
    path = path_of(kind, folder)
    suffixes = ("", ".tmp", "-wal", "-shm", "-journal")
    files = [str(folder), *(f"{path}{suffix}" for suffix in suffixes)]
    watched = [option for file in files for option in ("-P", file)]
    command = ["strace", "-f", "-qq", "-o", str(folder / "trace"), *watched, *options]
    program = [sys.executable, "-m", "tests.faults.disk_steps", str(folder), kind, end]
    ran = subprocess.run([*command, *program], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout, (folder / "trace").read_text()


def states(folder: Path) -> list[State]:
    """Return what the store held after each write that succeeded."""
    path = folder / "states"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def found(folder: Path, kind: str) -> State:
    """Return what the store holds when it is opened again."""
    with open_store(kind, folder) as store:
        now = seen(store)
    if kind == "json":
        return now
    with closing(sqlite3.connect(path_of(kind, folder))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    return now


@pytest.fixture(params=["json", "sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def may_fail(call: str, calls: str, folder: Path | None) -> list[int]:
    """Return the numbers of a system call, which strace counts in each thread, that may fail.

    No system refuses to release a lock of a local file; and whether a file was replaced is unknown
    where its folder cannot be flushed.
    """
    counts: Counter[str] = Counter()
    may: set[int] = set()
    may_not: set[int] = set()
    for thread, line in re.findall(rf"^(\d+) +({call}\(.*)", calls, re.M):
        counts[thread] += 1
        (may_not if "F_UNLCK" in line or f"{folder}>" in line else may).add(counts[thread])
    return sorted(may - may_not)


@pytest.mark.skipif(not _can_trace(), reason="strace is not installed, or may not trace")
def test_a_write_that_fails_changes_nothing_whichever_call_failed(
    kind: str, tmp_path: Path
) -> None:
    (tmp_path / "count").mkdir()
    options = ["-y", "-e", f"trace={','.join(FAILING)}"]
    _, calls = traced(tmp_path / "count", kind, "close", *options)
    assert len(states(tmp_path / "count")) == len(STEPS)
    cases = [
        (call, error, number)
        for call, errors in FAILING.items()
        for number in may_fail(call, calls, tmp_path / "count" if kind == "json" else None)
        for error in errors
    ]
    failed = 0
    chosen = some(cases, 6)
    if kind == "json" and not SOAK:  # of few kinds
        chosen = list(
            {case[:2]: case for case in random.Random(17).sample(cases, len(cases))}.values()
        )
    for index, (call, error, number) in enumerate(chosen):
        folder = tmp_path / str(index)
        folder.mkdir()
        inject = f"inject={call}:error={error}:when={number}"
        # Half of the programs end without closing, so that the -wal file is read as after a crash.
        said, _ = traced(folder, kind, "abandon" if index % 2 else "close", "-e", inject)

        expected = [NOTHING, *states(folder)][-1]
        assert found(folder, kind) == expected, (call, error, number, said)
        failed += "failed" in said or "not opened" in said
    assert failed
    report(
        f"failing disk, {kind}: {len(chosen)} of {len(cases)} calls failed,"
        f" {failed} writes refused: 0 half done"
    )


def test_a_json_file_is_flushed_before_it_has_its_name_and_then_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    fsync, replace = os.fsync, os.replace

    def flush(fd: int) -> None:
        calls.append(("flush", os.readlink(f"/proc/self/fd/{fd}")))
        fsync(fd)

    def rename(source: str, target: str) -> None:
        calls.append(("rename", source, target))
        replace(source, target)

    path = str(tmp_path / "messages.json")
    with MessageStore.initialize(path) as store:
        monkeypatch.setattr(os, "fsync", flush)
        monkeypatch.setattr(os, "replace", rename)
        store.store_conversation(conversation("c1"))

    temporary = f"{path}.tmp"
    renamed = "rename", temporary, path
    assert calls == [("flush", temporary), renamed, ("flush", str(tmp_path))]


@pytest.mark.parametrize(("synchronous", "number"), [("full", 2), ("normal", 1)])
def test_sqlite_waits_for_the_disk_unless_told_otherwise_and_makes_no_temporary_files(
    tmp_path: Path, synchronous: str, number: int
) -> None:
    options = {"synchronous": number, "temp_store": 2, "secure_delete": 1, "foreign_keys": 1}

    config = {"storage": "sqlite", "path": str(tmp_path / "agent.db"), "synchronous": synchronous}
    with MessageStore.initialize(config) as store:
        client: Any = vars(store.backend)["client"]
        for name, value in options.items():
            pragma = f"PRAGMA {name}"
            assert (
                client.write(lambda driver, sql=pragma: driver.execute(sql).fetchone()[0]) == value
            )
