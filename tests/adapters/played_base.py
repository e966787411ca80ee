"""What the scripted agent of each framework has, for what holds for all adapters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from typing import Any

from jazzmine.sync import MessageStore
from jazzmine.sync.long_term_memory import LongTermMemoryStore

__all__ = ["Played"]


class Played(ABC):
    """An agent with a session, whose runs are recorded.

    Args:
        store: an open message store.
        items: an open long-term memory.

    Attributes:
        conversation_id: the conversation of the session.
        on_call: called when the tool is called.
        on_question: called when the model is called.
    """

    conversation_id = "s1"
    #: Whether it gives back what it was given; where a half is missing, it is mended before a run.
    is_exact = False

    def __init__(self, store: MessageStore, items: LongTermMemoryStore) -> None:
        self.store, self.items = store, items
        self.on_call: Callable[[], object] = lambda: None
        self.on_question: Callable[[], object] = lambda: None
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Make what is made once."""

    @abstractmethod
    async def run(self, text: str) -> None:
        """Run one turn, which a new process might begin."""

    def stream(self, text: str) -> AsyncGenerator[Any]:
        """Run one turn as a stream, which not every framework has."""
        raise AssertionError(f"{type(self).__name__} has no stream")

    async def add(self, texts: list[str]) -> None:
        """Store what a user says, without a run, which not every framework does."""
        raise AssertionError(f"{type(self).__name__} has no messages without a run")

    @abstractmethod
    async def run_rejected(self, text: str) -> None:
        """Run a turn whose call is not allowed, for "rejected" as the reason if there is one."""

    @abstractmethod
    async def history(self, conversation_id: str | None = None) -> list[tuple[str, Any]]:
        """Return what the framework loads: ("call" or "answer", its id), or ("said", its text)."""
