"""The power fails after each call of a write: the file has the old or the new content."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine.backends.json import file as durable
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


def cut_everywhere(path: Path, write: Callable[[Any], Any]) -> int:
    """Write, and fail unless a power cut leaves the old file or the new one after each call."""
    with MessageStore.initialize({"path": str(path)}) as store:
        assert isinstance(store, JSONMessageStore)
        before = path.read_bytes() if path.exists() else None
        disk = Disk(path.parent)
        with recorded(disk, path.name):
            write(store)
        after = path.read_bytes()
    assert disk.after_a_power_cut(path.name) == {after}, "an acknowledged write is lost"
    for number, state in enumerate(disk.states):
        broken = state - {before, after}
        assert not broken, f"after call {number + 1} the file is neither the old nor the new one"
    return len(disk.states)


def test_a_power_cut_after_any_call_leaves_the_old_file_or_the_new(tmp_path: Path) -> None:
    points = sum(cut_everywhere(tmp_path / "messages.json", write) for write in WRITES.values())
    report(f"power cut: {points} moments, each the old file or the new one")


def replace_flush(monkeypatch: pytest.MonkeyPatch, flush: Callable[[int], object]) -> None:
    class Without:
        """The module os with another fsync."""

        fsync = staticmethod(flush)

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

    monkeypatch.setattr(durable, "os", Without())


def is_folder(fd: int) -> bool:
    return os.path.isdir(f"/proc/self/fd/{fd}")


def test_a_recipe_without_the_fsync_of_the_file_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_flush(monkeypatch, lambda fd: os.fsync(fd) if is_folder(fd) else None)

    with pytest.raises(AssertionError, match=r"is lost|neither the old nor the new"):
        cut_everywhere(tmp_path / "messages.json", WRITES["the first record"])


def test_a_recipe_without_the_fsync_of_the_folder_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_flush(monkeypatch, lambda fd: None if is_folder(fd) else os.fsync(fd))

    with pytest.raises(AssertionError, match="an acknowledged write is lost"):
        cut_everywhere(tmp_path / "messages.json", WRITES["the first record"])


def test_a_recipe_that_renames_before_it_flushes_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flush_late(folder: int) -> None:
        if is_folder(folder):
            fd = os.open(tmp_path / "messages.json", os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
            os.fsync(folder)

    replace_flush(monkeypatch, flush_late)

    with pytest.raises(AssertionError, match="neither the old nor the new"):
        cut_everywhere(tmp_path / "messages.json", WRITES["the first record"])
