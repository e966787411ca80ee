"""The state machine detects stores with deliberate defects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from jazzmine._sync.message_store.hooks import MessageOwner, TraceKey
from jazzmine.config import JSONStoreConfig
from jazzmine.records.base import Snapshot
from jazzmine.records.conversation_log import Erased
from jazzmine.records.usage import UsageKey
from jazzmine.sync.message_store import (
    AnyMessage,
    Conversation,
    JSONMessageStore,
    Message,
    TraceFilter,
    TurnTrace,
    UsageSummary,
)
from tests.behaviour.state_machine import machine
from tests.behaviour.support.sync_support import Runner
from tests.mutants import run_until_it_fails


class MovesWhatIsStoredAgain(JSONMessageStore):
    """Moves a message that is stored again after those with an equal timestamp."""

    def _store_messages(self, messages: Sequence[Snapshot[Message]]) -> None:
        for given in messages:
            trace = self.get_turn_trace_by_message_id(given.record.id)
            known = self._delete_message(given.record.id)
            super()._store_messages([given])
            if known and trace is not None:
                self.store_turn_trace(trace)


class KeepsTracesOfDeletedMessages(JSONMessageStore):
    """Finds a trace by its id even after its message was deleted."""

    def __init__(self, config: JSONStoreConfig) -> None:
        super().__init__(config)
        self.orphans: dict[str, TurnTrace] = {}

    def _delete_message(self, message_id: str) -> bool:
        trace = self.get_turn_trace_by_message_id(message_id)
        if trace is not None:
            self.orphans[trace.id] = trace
        return super()._delete_message(message_id)

    def _get_trace(self, by: TraceKey, key: str) -> TurnTrace | None:
        return super()._get_trace(by, key) or (self.orphans.get(key) if by == "id" else None)


class IgnoresFlags(JSONMessageStore):
    """Returns flagged messages in the immediate context."""

    def _list_newest(
        self, conversation_id: str, calls: bool, limit: int, after: str | None
    ) -> list[Message]:
        return self.get_messages_by_conversation_id(conversation_id)[: -limit - 1 : -1]


class StoresHalfATurn(JSONMessageStore):
    """Keeps the messages of a turn whose trace is refused."""

    def _store_turn(
        self,
        conversation: Snapshot[Conversation] | None,
        messages: Sequence[Snapshot[Message]],
        trace: Snapshot[TurnTrace] | None,
    ) -> None:
        super()._store_turn(conversation, messages, None)
        super()._store_turn(None, [], trace)


class SkipsEqualsBetweenPages(JSONMessageStore):
    """Begins a page after all messages with the timestamp of the previous page's last one."""

    def _list_messages(
        self, by: MessageOwner, owner: str, limit: int | None, after: str | None
    ) -> list[Message]:
        page = super()._list_messages(by, owner, None, after)
        last = self.get_message_by_id(after) if after else None
        if last is not None:
            page = [message for message in page if message.timestamp > last.timestamp]
        return page[:limit]


class TakesAnotherPercentile(JSONMessageStore):
    """Returns the 95th percentile as the median."""

    def _summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        return [
            group.model_copy(update={"p50_latency_ms": group.p95_latency_ms})
            for group in super()._summarize(where, by)
        ]


class AppendsByTheClock(JSONMessageStore):
    """Appends a message with an earlier timestamp before those that are stored."""

    def _append(
        self,
        conversation_id: str,
        messages: Sequence[Snapshot[Message]],
        expected_last: str | AnyMessage | None,
    ) -> list[Message]:
        super()._append(conversation_id, messages, expected_last)
        self._store_messages(messages)
        return [message.record for message in messages]


class RewindsOneTooFar(JSONMessageStore):
    """Deletes the message as well after which all messages are to be deleted."""

    def _rewind(self, conversation_id: str, after: str | None) -> int:
        deleted = super()._rewind(conversation_id, after)
        if after is not None and deleted:
            self._delete_message(after)
        return deleted


class ForksInReverseOrder(JSONMessageStore):
    """Copies messages with equal timestamps in reverse order."""

    def _fork(
        self, conversation_id: str, until: str | None, copy: Snapshot[Conversation], salt: UUID
    ) -> dict[str, str]:
        ids = super()._fork(conversation_id, until, copy, salt)
        messages = self.get_messages_by_ids(reversed(ids.values()))
        traces = self.get_turn_traces_by_conversation_id(copy.record.id)
        self._rewind(copy.record.id, None)
        self.store_messages(messages)
        for trace in traces:
            self.store_turn_trace(trace)
        return ids


class ErasesConversationsOnly(JSONMessageStore):
    """Leaves the user's messages in the conversations of others."""

    def _erase(self, user_id: str, limit: int) -> Erased:
        ids = [found.id for found in self.get_conversations_by_user_id(user_id)]
        return Erased(conversations=sum(map(self._delete_conversation, ids)))


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
        RewindsOneTooFar,
        ForksInReverseOrder,
        ErasesConversationsOnly,
    ],
)
def test_a_store_that_breaks_a_rule_is_found_out(
    broken: type[JSONMessageStore], tmp_path: Path
) -> None:
    def open_store() -> JSONMessageStore:
        store = broken(JSONStoreConfig(path=tmp_path / "messages.json", fsync=False))
        store._open()
        return store

    with pytest.raises(AssertionError, match=r"returned|yielded"):
        run_until_it_fails(machine(open_store, Runner()))
