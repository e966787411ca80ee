"""Each call on the disk fails in turn: the write takes effect, or changes nothing."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from jazzmine.backends.json import file as durable
from jazzmine.sync.message_store import JSONMessageStore, MessageStore
from tests.behaviour.samples import conversation, message, trace
from tests.faults.sizes import report

NAMES = (
    "open",
    "write",
    "fsync",
    "replace",
    "chmod",
    "unlink",
    "stat",
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
            descriptors = descriptors_now()
            raised = False
            with failing(number, code) as made:
                try:
                    write(store)
                except OSError:
                    raised = True
            after = seen(store)
            open_now = descriptors_now()
            where = f"call {number}, {made[min(number, len(made)) - 1]}"
            if raised and "replace" not in made[: number - 1]:
                assert path.read_bytes() == content, f"{where} raised and changed the file"
                assert after == before, f"{where} raised and changed the memory"
            elif not raised:
                assert after != before, f"{where}: the write was swallowed"
            assert open_now <= descriptors, f"{where} leaked a descriptor"
            with MessageStore.initialize({"path": str(path)}) as another:
                assert seen(another) == after, f"{where}: memory and file differ"
            store.store_conversation(conversation("c1", title="afterwards"))
        if len(made) < number:
            return number - 1
    raise AssertionError("no end of calls")


def descriptors_now() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=["ENOSPC", "EIO"])
@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_done_or_undone_whichever_call_fails(
    tmp_path: Path, name: str, code: int
) -> None:
    sites = fail_everywhere(tmp_path / "messages.json", WRITES[name], code)

    assert sites >= 8
    report(f"failing disk, {name}, {errno.errorcode[code]}: {sites} calls failed in turn")


def test_a_recipe_that_keeps_its_descriptor_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "_flush_folder", lambda path: os.open(path, os.O_RDONLY))

    with pytest.raises(AssertionError, match="leaked a descriptor"):
        fail_everywhere(tmp_path / "messages.json", WRITES["store_message"], errno.EIO)


def test_a_mutant_that_expects_complete_writes_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "_write_all", lambda fd, data: os.write(fd, data))

    with pytest.raises(json.JSONDecodeError):
        fail_everywhere(tmp_path / "messages.json", WRITES["store_messages"], errno.EIO)
