"""Each system call on a store's files fails in turn, or the power fails after it."""

from __future__ import annotations

import json
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.disk_steps import FILES, NOTHING, STEPS, State, open_store, seen
from tests.faults.sizes import SOAK, report, size, some


def _can_trace() -> bool:
    try:
        ran = subprocess.run(["strace", "-qq", "true"], check=False, capture_output=True)
    except FileNotFoundError:
        return False
    return ran.returncode == 0


pytestmark = pytest.mark.skipif(
    not _can_trace(), reason="strace is not installed, or may not trace"
)

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
    path = folder / FILES[kind]
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
    with closing(sqlite3.connect(folder / FILES[kind])) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    return now


@pytest.fixture(params=STEPS)
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


def test_a_write_that_fails_changes_nothing_whichever_call_failed(
    kind: str, tmp_path: Path
) -> None:
    (tmp_path / "count").mkdir()
    options = ["-y", "-e", f"trace={','.join(FAILING)}"]
    _, calls = traced(tmp_path / "count", kind, "close", *options)
    assert len(states(tmp_path / "count")) == len(STEPS[kind])
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

        expected = [NOTHING[kind], *states(folder)][-1]
        assert found(folder, kind) == expected, (call, error, number, said)
        failed += "failed" in said or "not opened" in said
    assert failed
    report(
        f"failing disk, {kind}: {len(chosen)} of {len(cases)} calls failed,"
        f" {failed} writes refused: 0 half done"
    )


# A power cut


class File:
    """A file, with the writes since it was last flushed."""

    def __init__(self) -> None:
        self.flushed = b""
        self.pending: list[tuple[int, bytes | None]] = []

    def after_a_power_cut(self, kept: list[bool]) -> bytes:
        """Return the content if only some of the writes have reached the disk."""
        content = bytearray(self.flushed)
        for (at, data), is_kept in zip(self.pending, kept, strict=True):
            if not is_kept:
                continue
            if data is None:
                content[:] = content[:at].ljust(at, b"\0")
            else:
                content[:] = content.ljust(at, b"\0")
                content[at : at + len(data)] = data
        return bytes(content)

    def append(self, data: bytes) -> None:
        size = max([len(self.flushed), *(at + len(data or b"") for at, data in self.pending)])
        self.pending.append((size, data))

    def flush(self) -> None:
        self.flushed = self.after_a_power_cut([True] * len(self.pending))
        self.pending = []


class Disk:
    """A folder whose files and names are on the disk once they were flushed.

    Args:
        folder: its path in the recorded calls.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._open: dict[int, File | None] = {}
        self._names: dict[str, File] = {}
        self._flushed_names: dict[str, File] = {}
        self._pending: list[tuple[str, File | None]] = []

    def follow(self, call: str) -> None:
        """Do what a line of strace tells."""
        match = re.match(r"\d+ +(\w+)\((.*)\) += (-?\d+)", call)
        if match is None or int(match[3]) < 0:
            return
        name, arguments, result = match[1], match[2], int(match[3])
        texts = [
            bytes.fromhex(text.replace("\\x", "")) for text in re.findall('"(.*?)"', arguments)
        ]
        numbers = [int(one) for one in re.findall(r"(?:^|, )(\d+)(?=,|$)", arguments)]
        if name == "openat":
            self._opened(result, texts[0].decode())
        elif name == "pwrite64":
            self._file(numbers[0]).pending.append((numbers[-1], texts[0]))
        elif name == "write" and numbers[0] in self._open:
            self._file(numbers[0]).append(texts[0])
        elif name == "ftruncate":
            self._file(numbers[0]).pending.append((numbers[1], None))
        elif name in ("fdatasync", "fsync"):
            self._flush(numbers[0])
        elif name == "unlink":
            self._names.pop(texts[0].decode())
            self._pending.append((texts[0].decode(), None))
        elif name == "rename":
            # One atomic change of the folder: the new name decides.
            old, new = (text.decode() for text in texts)
            self._names[new] = self._names.pop(old)
            self._pending.append((new, self._names[new]))
        elif name == "close":
            self._open.pop(numbers[0], None)

    def _opened(self, fd: int, path: str) -> None:
        if path == self._folder:
            self._open[fd] = None
            return
        if path not in self._names:
            self._names[path] = File()
            self._pending.append((path, self._names[path]))
        self._open[fd] = self._names[path]

    def _file(self, fd: int) -> File:
        file = self._open[fd]
        assert file is not None
        return file

    def _flush(self, fd: int) -> None:
        file = self._open[fd]
        if file is not None:
            file.flush()
        else:
            self._flushed_names, self._pending = dict(self._names), []

    def after_a_power_cut(self, chance: random.Random, share: float) -> dict[str, bytes]:
        """Return the files' contents if a share of what was not flushed has reached the disk."""
        names = dict(self._flushed_names)
        for path, file in self._pending:
            if chance.random() < share:
                names.pop(path, None)
                if file is not None:
                    names[path] = file
        return {
            path: file.after_a_power_cut([chance.random() < share for _ in file.pending])
            for path, file in names.items()
            if not path.endswith(("-shm", "/trace"))
        }


CALLS = "openat,close,write,pwrite64,ftruncate,fdatasync,fsync,unlink,rename,writev"
CUTS = size(25, 3_000)
CUTS_OF_JSON = 150  # all of them: opening a small file is quick


@pytest.fixture
def recorded(tmp_path: Path, kind: str) -> tuple[Path, list[str]]:
    folder = tmp_path / "recorded"
    folder.mkdir()
    (folder / "states").touch()
    options = ["-P", str(folder / "states"), "-e", f"trace={CALLS}", "-xx", "-s", "100000"]
    _, calls = traced(folder, kind, "close", *options)
    return folder, calls.splitlines()


def cuts(
    count: int, calls: list[str], folder: Path, chance: random.Random
) -> Iterator[tuple[Disk, int]]:
    """Yield the disk at times when the power fails, and how many writes were acknowledged."""
    chosen = sorted(chance.sample(range(len(calls)), min(count, len(calls))))
    disk, acknowledged, last = Disk(folder), 0, -1
    for number in chosen:
        for call in calls[last + 1 : number + 1]:
            if re.match(r"\d+ +writev\(", call):  # to the file of states
                acknowledged += 1
            elif "states" not in bytes.fromhex("".join(re.findall(r"\\x(..)", call[:400]))).decode(
                errors="replace"
            ):
                disk.follow(call)
        last = number
        yield disk, acknowledged


def check(kind: str, recorded: tuple[Path, list[str]], tmp_path: Path) -> int:
    """Fail unless acknowledged writes survive each power cut; return how many cuts there were."""
    folder, calls = recorded
    possible = [NOTHING[kind], *states(folder)]
    assert len(possible) == len(STEPS[kind]) + 1
    chance, count = random.Random(17), 0
    most = CUTS_OF_JSON if kind == "json" else CUTS
    for disk, acknowledged in cuts(most, calls, folder, chance):
        for share in (0.0, 0.5, 1.0):
            files = disk.after_a_power_cut(chance, share)
            after = tmp_path / "after"
            shutil.rmtree(after, ignore_errors=True)
            after.mkdir()
            for path, content in files.items():
                (after / Path(path).name).write_bytes(content)
            now = found(after, kind)
            assert now in possible[acknowledged : acknowledged + 2], (
                f"lost: {acknowledged} writes were acknowledged, and the store holds {now}"
            )
            count += 1
    return count


def test_no_power_cut_loses_an_acknowledged_write(
    kind: str, recorded: tuple[Path, list[str]], tmp_path: Path
) -> None:
    count = check(kind, recorded, tmp_path)

    report(f"power cut, {kind}: {count} cuts in {len(recorded[1])} calls: 0 acknowledged lost")


@pytest.mark.parametrize("kept", [None, 0, 1], ids=["none", "of files", "of folders"])
def test_a_store_that_does_not_flush_is_found_out(
    kind: str, kept: int | None, recorded: tuple[Path, list[str]], tmp_path: Path
) -> None:
    """A JSON file is flushed, and then its folder; SQLite flushes its two files as it needs."""
    folder, calls = recorded
    flushes = [call for call in calls if re.search(r"(fdata|f)sync\(", call)]
    left = flushes if kept is None else flushes[1 - kept :: 2]
    flushed = [call for call in calls if not any(call is one for one in left)]

    with pytest.raises((AssertionError, OSError, ValueError, sqlite3.DatabaseError)):
        check(kind, (folder, flushed), tmp_path)
