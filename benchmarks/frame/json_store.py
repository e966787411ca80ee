"""JSON stores to measure: filled, copied, opened."""

from __future__ import annotations

from pathlib import Path

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.records import conversations, messages
from benchmarks.frame.scenario import Figures, Scenario
from jazzmine.core.message_store import MessageStore


async def open_store(path: Path) -> MessageStore:
    return await MessageStore.initialize({"storage": "json", "path": str(path)})


async def fill(path: Path, stored: int, spread: int) -> None:
    """Create a file with this number of messages and conversations."""
    store = await open_store(path)
    for conversation in conversations(spread):
        await store.store_conversation(conversation)
    await store.store_messages(messages(0, stored, spread))
    await store.close()


class Fill(Scenario):
    """Creates a file, and measures nothing."""

    def __init__(self, folder: Path, path: str, stored: int, spread: int) -> None:
        super().__init__(folder)
        self._path, self._stored, self._spread = Path(path), stored, spread

    async def measure(self) -> Figures:
        await fill(self._path, self._stored, self._spread)
        return {}


LARGE = 100_000
LARGE_SPREAD = 1_000


def large_file(lab: Lab) -> Path:
    """100,000 messages in 1,000 conversations, in the form the library writes; never changed."""

    def make(folder: Path) -> Path:
        path = folder / "messages.json"
        options = {"path": str(path), "stored": LARGE, "spread": LARGE_SPREAD}
        with lab.worker(Side(Fill, options)) as worker:
            worker.call("measure")
        return path

    return lab.keep("100,000 messages", make)
