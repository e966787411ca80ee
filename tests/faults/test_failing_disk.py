"""Each call on the disk fails in turn: the write takes effect, or changes nothing."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest

from jazzmine.backends.json import database as json_store
from jazzmine.backends.json import document
from jazzmine.backends.json import durable_file as durable
from jazzmine.backends.sqlite import memory_database
from jazzmine.sync.message_store import JSONMessageStore, MessageStore
from tests.behaviour.samples import conversation, message, trace
from tests.faults.sizes import report

NAMES = (
    "open",
    "write",
    "writev",
    "fsync",
    "replace",
    "fchmod",
    "fchown",
    "unlink",
    "stat",
    "fstat",
)

WRITES: dict[str, Callable[[Any], Any]] = {
    "store_conversation": lambda store: store.store_conversation(conversation("c1", title="new")),
    "store_message": lambda store: store.store_message(message("m2")),
    "store_messages": lambda store: store.store_messages(
        [message("m1", intent="new"), message("m2", original_content="x" * 1_200_000)]
    ),
    "store_turn": lambda store: store.store_turn(messages=[message("m2")], trace=trace("m2")),
    "flag_message": lambda store: store.flag_message("m1"),
    "delete_conversation": lambda store: store.delete_conversation("c1"),
}


@contextmanager
def failing(number: int, code: int) -> Iterator[list[str]]:
    """Make the `number`-th call in a block fail, and every write write only some bytes."""
    made: list[str] = []

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any, **options: Any) -> Any:
            if str(arguments[0]).startswith("/proc"):
                return real(*arguments, **options)
            made.append(name)
            if len(made) == number:
                raise OSError(code, os.strerror(code))
            if name == "write":
                return real(arguments[0], bytes(arguments[1])[: 1 << 18])
            if name == "writev":
                return real(arguments[0], arguments[1][:2])
            return real(*arguments, **options)

        return instead

    patches = [patch.object(os, name, wrapped(name, getattr(os, name))) for name in NAMES]
    for one in patches:
        one.start()
    try:
        yield made
    finally:
        for one in patches:
            one.stop()


def seen(store: MessageStore) -> list[Any]:
    return [
        store.get_conversations_by_user_id("u1"),
        store.get_messages_by_user_id("u1"),
        store.get_turn_traces_by_agent_id("a1"),
    ]


def fail_everywhere(path: Path, write: Callable[[Any], Any], code: int) -> int:
    """Make each call of the write fail in turn; fail unless it takes effect or changes nothing."""
    for number in range(1, 100):
        path.unlink(missing_ok=True)
        with MessageStore.initialize({"path": str(path)}) as store:
            assert isinstance(store, JSONMessageStore)
            store.store_conversation(conversation("c1"))
            store.store_messages([message("m1")])
            before, content = seen(store), path.read_bytes()
            descriptors = settled(store)
            raised = False
            with failing(number, code) as made:
                try:
                    write(store)
                except OSError:
                    raised = True
                open_now = settled(store)
            after = seen(store)
            where = f"call {number}, {made[min(number, len(made)) - 1]}"
            if raised:
                assert path.read_bytes() == content, f"{where} raised and changed the file"
                assert after == before, f"{where} raised and changed the memory"
            else:
                assert after != before, f"{where}: the write was swallowed"
            assert open_now == descriptors, f"{where} leaked a descriptor"
            with MessageStore.initialize({"path": str(path)}) as another:
                assert seen(another) == after, f"{where}: memory and file differ"
            store.store_conversation(conversation("c1", title="afterwards"))
        if len(made) < number:
            return number - 1
    raise AssertionError("no end of calls")


def settled(store: JSONMessageStore) -> int:
    """The number of open descriptors, after those that are released have been closed."""
    cast(Any, store.backend).client.database._closing.result()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=["ENOSPC", "EIO"])
@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_done_or_undone_whichever_call_fails(
    tmp_path: Path, name: str, code: int
) -> None:
    sites = fail_everywhere(tmp_path / "messages.json", WRITES[name], code)

    assert sites >= 8
    report(f"failing disk, {name}, {errno.errorcode[code]}: {sites} calls failed in turn")


def test_a_store_that_remembers_before_it_writes_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remember_first(database: Any, changes: Any) -> None:
        database._read_again()
        database._transact(changes, memory_database._commit)
        content = document.file_content(
            database.read(lambda connection, _: document.changed_blocks(connection, None), 0)
        )
        view = durable.replace_file(database.path, content, fsync=True, is_allowed=lambda: True)
        database._set_view(view)

    monkeypatch.setattr(json_store.JSONDatabase, "_write", remember_first)

    with pytest.raises(AssertionError, match="raised and changed the memory"):
        fail_everywhere(tmp_path / "messages.json", WRITES["store_message"], errno.EIO)


def test_a_recipe_that_keeps_its_descriptor_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flush_and_not_close(path: str, folder: int, *_: Any) -> None:
        os.fsync(folder)

    monkeypatch.setattr(durable, "_flush_folder_or_undo", flush_and_not_close)

    with pytest.raises(AssertionError, match="leaked a descriptor"):
        fail_everywhere(tmp_path / "messages.json", WRITES["store_message"], errno.EIO)


def test_a_mutant_that_expects_complete_writes_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_once(fd: int, blocks: Sequence[bytes], size: int) -> None:
        os.writev(fd, blocks)

    monkeypatch.setattr(durable, "_write", write_once)

    with pytest.raises(json.JSONDecodeError):
        fail_everywhere(tmp_path / "messages.json", WRITES["store_messages"], errno.EIO)
