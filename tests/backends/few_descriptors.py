"""Run by a test: opens all descriptors but a few, and checks that a failed write changed nothing.

A process of its own has no other threads, which could close a descriptor meanwhile.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from jazzmine.sync.message_store import JSONMessageStore, MessageStore
from tests.behaviour.samples import conversation, message


@contextmanager
def descriptors_left(spare: int) -> Iterator[None]:
    """Limit the number of descriptors that this process can still open."""
    taken = [os.open(os.devnull, os.O_RDONLY)]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 64, hard))
    with suppress(OSError):
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    for _ in range(spare):
        os.close(taken.pop())
    try:
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)


def main(path: Path, spare: int) -> None:
    """Fail unless a write without a free descriptor leaves the file unchanged."""
    with MessageStore.initialize({"path": str(path)}) as store:
        assert isinstance(store, JSONMessageStore)
        store.store_conversation(conversation("c1"))
        store.store_message(message("m1"))
        before = path.read_bytes()
        with descriptors_left(spare):
            with pytest.raises(OSError) as failed:
                store.store_message(message("m2"))
            assert store.get_message_by_id("m1") is not None
        assert failed.value.errno == errno.EMFILE
        assert path.read_bytes() == before
        assert store.get_message_by_id("m2") is None
        store.store_message(message("m3"))
        assert store.get_message_by_id("m3") is not None
        assert not Path(f"{path}.tmp").exists()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
