"""The state machine detects stores with deliberate defects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from jazzmine._sync.message_store.hooks import MessageOwner, TraceKey
from jazzmine.config import JSONStoreConfig
from jazzmine.records.base import Snapshot
from jazzmine.records.usage import UsageKey
from jazzmine.sync.message_store import (
    Conversation,
    JSONMessageStore,
    Message,
    TraceFilter,
    TurnTrace,
    UsageSummary,
)
from tests.behaviour.state_machine import SETTINGS, drive
from tests.behaviour.support.sync_support import Runner

# Only a failure is needed, not the shortest sequence; a few sequences are usually enough, but which
# ones are tried depends on the loaded modules.
PROFILE = settings(SETTINGS, max_examples=600, phases=[Phase.generate], report_multiple_bugs=False)


class MovesWhatIsStoredAgain(JSONMessageStore):
    """Moves a message that is stored again after those with an equal timestamp."""

    def _store_messages(self, messages: Sequence[Snapshot[Message]]) -> None:
        for sealed in messages:
            trace = self.get_turn_trace_by_message_id(sealed.record.id)
            known = self._delete_message(sealed.record.id)
            super()._store_messages([sealed])
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

    def _list_newest_visible(self, conversation_id: str, n: int) -> list[Message]:
        return self.get_messages_by_conversation_id(conversation_id)[-n:]


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


@pytest.mark.parametrize(
    "broken",
    [
        MovesWhatIsStoredAgain,
        KeepsTracesOfDeletedMessages,
        IgnoresFlags,
        StoresHalfATurn,
        SkipsEqualsBetweenPages,
        TakesAnotherPercentile,
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
        drive(open_store, Runner(), PROFILE)
