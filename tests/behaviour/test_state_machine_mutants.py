"""The state machine detects stores with deliberate defects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from jazzmine._async.message_store.scoped import ScopedMessageStore
from jazzmine.core.message_store import (
    Conversation,
    Message,
    MessageStore,
    TraceFilter,
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
from jazzmine.records.rows import Row
from jazzmine.records.usage import UsageKey
from tests.behaviour.apis import Runner
from tests.behaviour.scoped_machine import scoped_machine
from tests.behaviour.state_machine import machine
from tests.behaviour.toy_backend import ToyData
from tests.behaviour.toy_store import ToyBackend
from tests.mutants import run_until_it_fails


class MovesWhatIsStoredAgain(ToyBackend):
    """Moves a message that is stored again after those with an equal timestamp."""

    async def store(self, turn: Turn) -> None:
        await super().store(turn)
        with self._data.changes() as tables:
            for given in turn.messages:
                tables[Message][given.record.id] = tables[Message].pop(given.record.id)


class KeepsTracesOfDeletedMessages(ToyBackend):
    """Finds a trace by its id even after its message was deleted."""

    def __init__(self, data: ToyData) -> None:
        super().__init__(data)
        self.orphans: dict[str, Row] = {}

    async def delete_message(self, message_id: str) -> bool:
        row = await super().get_trace("message_id", message_id)
        if row is not None:
            self.orphans[row[0]] = row
        return await super().delete_message(message_id)

    async def get_trace(self, by: str, key: str) -> Row | None:
        return await super().get_trace(by, key) or (self.orphans.get(key) if by == "id" else None)


class IgnoresFlags(ToyBackend):
    """Returns flagged messages in the immediate context."""

    async def list_newest(self, listing: NewestPage) -> Sequence[Row]:
        everything = MessagePage("conversation_id", listing.conversation_id, None, None)
        return (await self.list_messages(everything))[: -listing.limit - 1 : -1]


class StoresHalfATurn(ToyBackend):
    """Keeps the messages of a turn whose trace is refused."""

    async def store(self, turn: Turn) -> None:
        await super().store(turn._replace(trace=None))
        await super().store(Turn(trace=turn.trace))


class SkipsEqualsBetweenPages(ToyBackend):
    """Begins a page after all messages with the timestamp of the previous page's last one."""

    async def list_messages(self, listing: MessagePage) -> Sequence[Row]:
        page = await super().list_messages(listing._replace(limit=None))
        last = await self.get_message(listing.after) if listing.after else None
        if last is not None:
            page = [row for row in page if row[1]["timestamp"] > last[1]["timestamp"]]
        return page[: listing.limit]


class TakesAnotherPercentile(ToyBackend):
    """Returns the 95th percentile as the median."""

    async def summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        return [
            group.model_copy(update={"p50_latency_ms": group.p95_latency_ms})
            for group in await super().summarize(where, by)
        ]


class AppendsByTheClock(ToyBackend):
    """Appends a message with an earlier timestamp before those that are stored."""

    async def append(self, given: Append) -> int | Refusal:
        found = await super().append(given)
        if not isinstance(found, Refusal):
            await self.store(Turn(messages=given.messages))
        return found


class ReplacesNothing(ToyBackend):
    """Keeps the messages that an append has to replace."""

    async def append(self, given: Append) -> int | Refusal:
        return await super().append(given._replace(replace_after=NOTHING))


class RewindsOneTooFar(ToyBackend):
    """Deletes the message as well after which all messages are to be deleted."""

    async def rewind(self, conversation_id: str, after: str | None) -> int:
        deleted = await super().rewind(conversation_id, after)
        if after is not None and deleted:
            await self.delete_message(after)
        return deleted


class ForksInReverseOrder(ToyBackend):
    """Copies messages with equal timestamps in reverse order."""

    async def fork(self, fork: Fork) -> dict[str, str]:
        ids = await super().fork(fork)
        with self._data.changes() as tables:
            for new_id in reversed(ids.values()):
                tables[Message][new_id] = tables[Message].pop(new_id)
        return ids


class ErasesConversationsOnly(ToyBackend):
    """Leaves the user's messages in the conversations of others."""

    async def erase(self, user_id: str, limit: int, newest: Any) -> DeletedCounts:
        rows = await self.list_conversations(ConversationPage("user_id", user_id, {}, None, None))
        deleted = [await self.delete_conversation(row[0]) for row in rows]
        return DeletedCounts(conversations=sum(deleted))


class OverwritesMetadata(ToyBackend):
    """Replaces the metadata by what an edit sets."""

    async def rewrite(
        self, kind: RecordKind, ids: Sequence[str], change: Callable[[Row], Any]
    ) -> Sequence[str]:
        def overwritten(row: Row) -> Any:
            return change((row[0], {**row[1], "metadata": {}}))

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
def test_a_store_that_breaks_a_rule_is_found_out(broken: type[ToyBackend]) -> None:
    data = ToyData()

    async def open_store() -> MessageStore:
        return await MessageStore(broken(data)).open()

    with Runner() as runner, pytest.raises(AssertionError, match=r"returned|yielded"):
        run_until_it_fails(machine(open_store, runner))


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
    """Says of a trace that its message is in another conversation, which tells that it is there."""

    async def _require_message(self, message_id: str) -> None:
        pass


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
        def scoped(self, *, user_id: str) -> MessageStore:
            return broken(self, user_id)

    data = ToyData()

    async def open_store() -> MessageStore:
        return await Broken(ToyBackend(data)).open()

    with Runner() as runner, pytest.raises(AssertionError):
        run_until_it_fails(scoped_machine(open_store, runner))
