"""Build what is sent to a server, without keeping the other calls of an event loop waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from jazzmine._compat.concurrency import sync_run_blocking as run_blocking
from jazzmine.records.base import Snapshot
from jazzmine.records.messages import Message
from jazzmine.search.analyser import Analyser

T = TypeVar("T")
Given = TypeVar("Given")

# Building so much takes about as long as passing it to a thread and back; with an index, the words
# of so many characters are found in a few milliseconds.
_FEW_MESSAGES, _FEW_CHARACTERS, _FEW_INDEXED = 100, 100_000, 5_000


def built(
    build: Callable[[Given, Analyser | None], T],
    given: Given,
    messages: Sequence[Snapshot[Message]],
    analyser: Analyser | None,
) -> T:
    """Return what a function builds of what is given; in a thread for many or large messages."""
    few = _FEW_CHARACTERS if analyser is None else _FEW_INDEXED
    size = 0
    for message in messages:
        size += len(message.record.original_content)
    if len(messages) <= _FEW_MESSAGES and size <= few:
        return build(given, analyser)
    return run_blocking(build, given, analyser)
