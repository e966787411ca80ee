"""The power fails after each call of a write: the file has the old or the new content."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine.backends.json import durable_file as durable
from jazzmine.sync.message_store import JSONMessageStore, MessageStore
from tests.behaviour.samples import conversation, message, trace
from tests.faults.power import Disk, recorded
from tests.faults.sizes import report

WRITES: dict[str, Callable[[Any], Any]] = {
    "the first record": lambda store: store.store_conversation(conversation("c1")),
    "a message": lambda store: store.store_message(message("m1")),
    "a message again": lambda store: store.store_message(message("m1", intent="other")),
    "large messages": lambda store: store.store_messages(
        message(f"m{n}", original_content="x" * 300_000) for n in range(2, 7)
    ),
    "a turn": lambda store: store.store_turn(messages=[message("m9")], trace=trace("m9")),
    "a deletion": lambda store: store.delete_conversation("c1"),
}


def cut_everywhere(
    path: Path, write: Callable[[Any], Any], fails: Callable[[str, int], bool]
) -> int:
    """Write, and fail unless a power cut leaves the old file or the new one after each call."""
    with MessageStore.initialize({"path": str(path)}) as store:
        assert isinstance(store, JSONMessageStore)
        before = path.read_bytes() if path.exists() else None
        disk = Disk(path.parent)
        raised = False
        with recorded(disk, path.name, fails):
            try:
                write(store)
            except OSError:
                raised = True
        written = {file.data for file in disk.names.values() if file.data}
        after = path.read_bytes() if path.exists() else None
    if raised:
        assert after == before
    else:
        assert disk.after_a_power_cut(path.name) == {after}, "an acknowledged write is lost"
        written = {after or b""}
    allowed = {before, *written}
    for number, state in enumerate(disk.states):
        # A write that raised may have renamed its new file for a moment.
        broken = [found for found in state - allowed if not (raised and is_whole(found))]
        assert not broken, f"after call {number + 1} the file is neither the old nor the new one"
    return len(disk.states)


def is_whole(content: bytes | None) -> bool:
    return content is None or content.endswith(b"]}\n")


def never(call: str, fd: int) -> bool:
    return False


def on_the_folder(call: str, fd: int) -> bool:
    return call == "fsync" and os.path.isdir(f"/proc/self/fd/{fd}")


@pytest.mark.parametrize("fails", [never, on_the_folder])
def test_a_power_cut_after_any_call_leaves_the_old_file_or_the_new(
    tmp_path: Path, fails: Callable[[str, int], bool]
) -> None:
    points = 0
    for write in WRITES.values():
        path = tmp_path / "messages.json"
        points += cut_everywhere(path, write, fails)
        if fails is not never:
            cut_everywhere(path, write, never)
    report(f"power cut, {fails.__name__}: {points} moments, each the old file or the new one")


class KilledError(BaseException):
    """Ends a write as `kill -9` does, with nothing undone."""


@pytest.mark.parametrize("reads_first", [False, True])
def test_a_write_repeated_after_a_kill_is_on_the_disk_when_it_returns(
    tmp_path: Path, reads_first: bool
) -> None:
    path = tmp_path / "messages.json"
    kills = iter([True])

    def kill_once(call: str, fd: int) -> bool:
        if on_the_folder(call, fd) and next(kills, False):
            raise KilledError
        return False

    with (
        MessageStore.initialize({"path": str(path)}) as killed,
        MessageStore.initialize({"path": str(path)}) as store,
    ):
        killed.store_conversation(conversation("c1"))
        disk = Disk(tmp_path)
        with recorded(disk, path.name, kill_once):
            with pytest.raises(KilledError):
                killed.store_message(message("m1"))
            assert len(disk.after_a_power_cut(path.name)) == 2
            if reads_first:
                assert store.get_message_by_id("m1") is not None

            store.store_message(message("m1"))

        assert disk.after_a_power_cut(path.name) == {path.read_bytes()}


def leave_out(monkeypatch: pytest.MonkeyPatch, leaves_out: Callable[[int], bool]) -> None:
    class Without:
        """The module os, with an fsync that skips some calls."""

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def fsync(self, fd: int) -> None:
            if not leaves_out(fd):
                os.fsync(fd)

    monkeypatch.setattr(durable, "os", Without())


def is_folder(fd: int) -> bool:
    return os.path.isdir(f"/proc/self/fd/{fd}")


def test_a_recipe_without_the_fsync_of_the_file_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out(monkeypatch, lambda fd: not is_folder(fd))

    with pytest.raises(AssertionError, match=r"is lost|neither the old nor the new"):
        cut_everywhere(tmp_path / "messages.json", WRITES["the first record"], never)


def test_a_recipe_without_the_fsync_of_the_folder_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out(monkeypatch, is_folder)

    with pytest.raises(AssertionError, match="an acknowledged write is lost"):
        cut_everywhere(tmp_path / "messages.json", WRITES["the first record"], never)


def test_a_recipe_that_renames_before_it_flushes_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, flush = os.replace, durable._flush_folder_or_undo

    def flush_late(path: str, *rest: Any) -> None:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        flush(path, *rest)

    leave_out(monkeypatch, lambda fd: not is_folder(fd))
    monkeypatch.setattr(durable, "_flush_folder_or_undo", flush_late)
    assert os.replace is replace

    with pytest.raises(AssertionError, match="neither the old nor the new"):
        cut_everywhere(tmp_path / "messages.json", WRITES["the first record"], never)
