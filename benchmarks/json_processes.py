"""Do four processes that store 250 messages each into one JSON file lose anything?

The four start together. Then each of them and one more process count the
messages; then each stores one more message, which the others read at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from benchmarks.frame.json_store import fill, open_store
from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.records import conversation_id, messages
from benchmarks.frame.results import Pairs, Row, exactly
from benchmarks.frame.scenario import Scenario
from benchmarks.frame.workers import Worker
from jazzmine.core.message_store import MessageStore

PROCESSES = 4
EACH = 250
SPREAD = 4


class Writer(Scenario):
    """One of the processes, which keeps the file open."""

    store: MessageStore

    def __init__(self, folder: Path, path: str) -> None:
        super().__init__(folder)
        self._path = Path(path)

    async def prepare(self) -> None:
        if not self._path.exists():
            await fill(self._path, 0, SPREAD)
        self.store = await open_store(self._path)

    async def write(self, start: int, stop: int) -> float:
        """Store messages number `start` to `stop`, one call each; the seconds that took."""
        new = messages(start, stop, SPREAD)
        started = perf_counter()
        for message in new:
            await self.store.store_message(message)
        return perf_counter() - started

    async def count(self) -> int:
        found = 0
        for number in range(SPREAD):
            rows = await self.store.get_messages_by_conversation_id(conversation_id(number))
            found += len(rows)
        return found

    async def sees(self, number: int) -> bool:
        [message] = messages(number, number + 1, SPREAD)
        return await self.store.get_message_by_id(message.id) == message

    async def finish(self) -> None:
        await self.store.close()


def answer(lab: Lab) -> Iterator[Row]:
    if lab.self_check:
        return
    with ExitStack() as stack:
        side = Side(Writer, {"path": str(lab.folder() / "messages.json")})
        writers = [stack.enter_context(lab.worker(side)) for _ in range(PROCESSES)]
        started = perf_counter()
        for index, writer in enumerate(writers):
            writer.send("write", start=index * EACH, stop=(index + 1) * EACH)
        calls = [writer.receive() / EACH for writer in writers]
        wall = perf_counter() - started
        counts = [writer.call("count") for writer in writers]
        later = stack.enter_context(lab.worker(side))
        counts.append(later.call("count"))
        seen = _seen(writers)
    total = PROCESSES * EACH
    yield Row(f"{PROCESSES} processes, {EACH} messages each, wall time", Pairs([wall], []))
    yield Row("mean store_message in each process", Pairs(calls, []))
    label = f"messages found ({PROCESSES} writers, 1 later)"
    yield Row(label, Pairs(counts, []), exactly(total), unit="")
    pairs = PROCESSES * (PROCESSES - 1)
    label = f"seen at another's next read, of {pairs}"
    yield Row(label, Pairs([seen], []), exactly(pairs), unit="")


def _seen(writers: list[Worker]) -> int:
    seen = 0
    for index, writer in enumerate(writers):
        number = PROCESSES * EACH + index
        writer.call("write", start=number, stop=number + 1)
        others = [other for other in writers if other is not writer]
        seen += sum(other.call("sees", number=number) for other in others)
    return seen
