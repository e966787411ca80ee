"""The state machine detects stores with deliberate defects."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

import pytest

from jazzmine._async.clients.sqlite import SQLiteClient
from jazzmine._async.message_store.backend import TraceKey
from jazzmine._async.message_store.scoped import ScopedMessageStore
from jazzmine._async.message_store.sqlite import SQLiteBackend
from jazzmine.backends.sqlite.memory_database import MemoryDatabase
from jazzmine.backends.sqlite.rows import MESSAGE_TABLES
from jazzmine.core.message_store import (
    Conversation,
    Message,
    MessageStore,
    TraceFilter,
    TurnTrace,
    UsageSummary,
)
from jazzmine.records.base import RecordKind
from jazzmine.records.conversation_log import DeletedCounts, Refusal
from jazzmine.records.hook_arguments import (
    Append,
    ConversationPage,
    Fork,
    MessagePage,
    NewestPage,
    Turn,
)
from jazzmine.records.log import NOTHING
from jazzmine.records.rows import Row, row_id
from jazzmine.records.usage import UsageKey
from tests.behaviour.apis import Runner
from tests.behaviour.state_machine import machine
from tests.mutants import require_overrides, run_until_it_fails


class Memory(SQLiteBackend):
    """Opens and closes nothing: all stores of a test are on one database."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def move_to_the_end(self, message_ids: Iterable[str]) -> None:
        """Give messages a place after all others with an equal timestamp."""
        last = "(SELECT max(seq) + 1 FROM stored_messages)"
        statement = f"UPDATE stored_messages SET seq = {last} WHERE id = ?"
        rows = [[message_id] for message_id in message_ids]
        await self.client.write(lambda connection: connection.executemany(statement, rows).rowcount)


class MovesWhatIsStoredAgain(Memory):
    """Moves a message that is stored again after those with an equal timestamp."""

    async def store(self, turn: Turn) -> None:
        await super().store(turn)
        await self.move_to_the_end(given.record.id for given in turn.messages)


class KeepsTracesOfDeletedMessages(Memory):
    """Finds a trace by its id even after its message was deleted."""

    def __init__(self, client: SQLiteClient) -> None:
        super().__init__(client)
        self.orphans: dict[str, Row] = {}

    async def delete_message(self, message_id: str) -> bool:
        row = await super().get_trace("message_id", message_id)
        if row is not None:
            self.orphans[row_id(row)] = row
        return await super().delete_message(message_id)

    async def get_trace(self, by: TraceKey, key: str) -> Row | None:
        return await super().get_trace(by, key) or (self.orphans.get(key) if by == "id" else None)


class IgnoresFlags(Memory):
    """Returns flagged messages in the immediate context."""

    async def list_newest(self, listing: NewestPage) -> Sequence[Row]:
        return await super().list_newest(listing._replace(flagged="all"))


class StoresHalfATurn(Memory):
    """Keeps the messages of a turn whose trace is refused."""

    async def store(self, turn: Turn) -> None:
        await super().store(turn._replace(traces=[]))
        await super().store(Turn(traces=turn.traces))


class SkipsEqualsBetweenPages(Memory):
    """Begins a page after all messages with the timestamp of the previous page's last one."""

    async def list_messages(self, listing: MessagePage) -> Sequence[Row]:
        page = await super().list_messages(listing._replace(limit=None))
        last = await self.get_message(listing.after) if listing.after else None
        if last is not None:
            earliest = json.loads(last[1])["timestamp"]
            page = [row for row in page if json.loads(row[1])["timestamp"] > earliest]
        return page[: listing.limit]


class TakesAnotherPercentile(Memory):
    """Returns the 95th percentile as the median."""

    async def summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        return [
            group.model_copy(update={"p50_latency_ms": group.p95_latency_ms})
            for group in await super().summarize(where, by)
        ]


class AppendsByTheClock(Memory):
    """Appends a message with an earlier timestamp before those that are stored."""

    async def append(self, given: Append) -> int | Refusal:
        found = await super().append(given)
        if not isinstance(found, Refusal):
            await self.store(Turn(messages=given.messages))
        return found


class ReplacesNothing(Memory):
    """Keeps the messages that an append has to replace."""

    async def append(self, given: Append) -> int | Refusal:
        return await super().append(given._replace(replace_after=NOTHING))


class RewindsOneTooFar(Memory):
    """Deletes the message as well after which all messages are to be deleted."""

    async def rewind(self, conversation_id: str, after: str | None) -> int:
        deleted = await super().rewind(conversation_id, after)
        if after is not None and deleted:
            await self.delete_message(after)
        return deleted


class ForksInReverseOrder(Memory):
    """Copies messages with equal timestamps in reverse order."""

    async def fork(self, fork: Fork) -> dict[str, str]:
        ids = await super().fork(fork)
        await self.move_to_the_end(reversed(ids.values()))
        return ids


class ErasesConversationsOnly(Memory):
    """Leaves the user's messages in the conversations of others."""

    async def erase(self, user_id: str, limit: int, newest: Any) -> DeletedCounts:
        rows = await self.list_conversations(ConversationPage("user_id", user_id, {}, None, None))
        deleted = [await self.delete_conversation(row_id(row)) for row in rows]
        return DeletedCounts(conversations=sum(deleted))


class OverwritesMetadata(Memory):
    """Replaces the metadata by what an edit sets."""

    async def rewrite(
        self, kind: RecordKind, ids: Sequence[str], change: Callable[[Row], Any]
    ) -> Sequence[str]:
        def overwritten(row: Row) -> Any:
            return change((row[0], json.dumps({**json.loads(row[1]), "metadata": {}})))

        return await super().rewrite(kind, ids, overwritten)


@pytest.mark.parametrize(
    "broken",
    [
        MovesWhatIsStoredAgain,
        KeepsTracesOfDeletedMessages,
        IgnoresFlags,
        StoresHalfATurn,
        SkipsEqualsBetweenPages,
        TakesAnotherPercentile,
        AppendsByTheClock,
        ReplacesNothing,
        RewindsOneTooFar,
        ForksInReverseOrder,
        ErasesConversationsOnly,
        OverwritesMetadata,
    ],
)
def test_a_store_that_breaks_a_rule_is_found_out(broken: type[Memory]) -> None:
    require_overrides(broken)
    with pytest.raises(AssertionError, match=r"returned|yielded"):
        compare(machine, broken)


def test_a_store_that_breaks_none_is_not_refused() -> None:
    compare(machine, Memory, rounds=1)


def compare(
    make_machine: Callable[..., Any],
    backend: type[Memory],
    kind: type[MessageStore] = MessageStore,
    rounds: int = 100,
) -> None:
    """Raise what the first difference between a store and its model raises."""
    client = SQLiteClient(MemoryDatabase(MESSAGE_TABLES))

    async def open_store() -> MessageStore:
        return await kind(backend(client)).open()

    with Runner() as runner:
        runner.run(client.open())
        run_until_it_fails(make_machine(open_store, runner), rounds)


class SeesEverything(ScopedMessageStore):
    """Takes each conversation for one of the user's."""

    async def _has(self, conversation_id: str) -> bool:
        return True


class SeesMessagesOfTheUserElsewhere(ScopedMessageStore):
    """Lists the user's messages in the conversations of others."""

    async def _seen(self, rows: Sequence[Row]) -> list[Row]:
        return list(rows)


class OverwritesWhatIsOfOthers(ScopedMessageStore):
    """Stores records in place of those of others."""

    async def _require_free(self, conversation: Conversation) -> None:
        pass


class TakesTracesOfOthers(ScopedMessageStore):
    """Stores a trace for a message in another user's conversation."""

    async def _require_within(
        self, messages: Sequence[Message], traces: Sequence[TurnTrace], new: Collection[str]
    ) -> None:
        await super()._require_within(messages, (), new)


class PrunesForEverybody(ScopedMessageStore):
    """Deletes old conversations of all users."""

    async def prune_conversations(self, *, user_id: str | None = None, **bounds: Any) -> int:
        return await self._store.prune_conversations(**bounds)


@pytest.mark.parametrize(
    "broken",
    [
        SeesEverything,
        SeesMessagesOfTheUserElsewhere,
        OverwritesWhatIsOfOthers,
        TakesTracesOfOthers,
        PrunesForEverybody,
    ],
)
def test_a_scope_that_leaks_is_found_out(broken: type[ScopedMessageStore]) -> None:
    class Broken(MessageStore):
        def scoped(self, *, user_id: str) -> Any:
            return broken(self, user_id)

    require_overrides(broken)
    with pytest.raises(AssertionError):
        compare(partial(machine, has_views=True), Memory, Broken)
