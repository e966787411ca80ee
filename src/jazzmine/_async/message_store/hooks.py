"""What a back end of a message store has to provide."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Literal, TypeAlias

from jazzmine._async.store import Store
from jazzmine.records.base import Snapshot
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import Repairs
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

__all__ = ["ConversationOwner", "MessageOwner", "MessageStoreHooks", "TraceKey"]

# The field of a record that holds the id which a hook is given.
ConversationOwner: TypeAlias = Literal["user_id", "agent_id"]
MessageOwner: TypeAlias = Literal["conversation_id", "user_id"]
TraceKey: TypeAlias = Literal["id", "message_id"]


class MessageStoreHooks(Store):
    """What a back end implements, beside the methods that every store has (`Store`).

    Arguments are checked before a hook is called: ids are non-empty strings, numbers are in
    range, and a snapshot holds a valid record that nobody else has.

    What is returned belongs to the caller. A stored record that breaks a rule is read with
    `self._repairs`, and left out of lists with `self._repairs.listing`. Two ids that a record
    gives as equal sort values keep the order in which they were first stored. Where a page has
    `after`, it begins after the record with that id, or raises `NotFoundError` if that record
    is not in the listing; None is no limit, and no `after`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._repairs = Repairs()

    # Writes

    @abstractmethod
    async def _store_turn(
        self,
        conversation: Snapshot[Conversation] | None,
        messages: Sequence[Snapshot[Message]],
        trace: Snapshot[TurnTrace] | None,
    ) -> None:
        """Store at least one of the three, in this order, all or nothing.

        A record takes the place of the one with its id, and a trace also that of another trace
        of its message.

        Raises:
            IntegrityError: a message's conversation or a trace's message is not stored, or the
                trace's id belongs to another message.
        """

    # A back end overrides these three if it has a quicker way to store one kind of record.

    async def _store_conversation(self, conversation: Snapshot[Conversation]) -> None:
        await self._store_turn(conversation, (), None)

    async def _store_messages(self, messages: Sequence[Snapshot[Message]]) -> None:
        """Store at least one message."""
        await self._store_turn(None, messages, None)

    async def _store_trace(self, trace: Snapshot[TurnTrace]) -> None:
        await self._store_turn(None, (), trace)

    @abstractmethod
    async def _flag_message(self, message_id: str, flagged: bool) -> bool:
        """Set a message's `is_flagged`; return whether the message was there."""

    @abstractmethod
    async def _delete_message(self, message_id: str) -> bool:
        """Delete a message and its trace; return whether the message was there."""

    @abstractmethod
    async def _delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation, its messages and their traces; return whether it was there."""

    # One record, or None; one that cannot be read raises `ValidationError`.

    @abstractmethod
    async def _get_conversation(self, conversation_id: str) -> Conversation | None: ...

    @abstractmethod
    async def _get_message(self, message_id: str) -> Message | None: ...

    @abstractmethod
    async def _get_trace(self, by: TraceKey, key: str) -> TurnTrace | None: ...

    # Lists

    @abstractmethod
    async def _get_messages(self, message_ids: Sequence[str]) -> list[Message]:
        """Return the messages that are stored, in the order of the ids, of which there are any."""

    @abstractmethod
    async def _list_conversations(
        self, by: ConversationOwner, owner: str, limit: int | None, after: str | None
    ) -> list[Conversation]:
        """Return a page by `last_updated_at`, newest first; equal ones latest stored first."""

    @abstractmethod
    async def _list_messages(
        self, by: MessageOwner, owner: str, limit: int | None, after: str | None
    ) -> list[Message]:
        """Return a page by `timestamp`, oldest first; equal ones first stored first."""

    @abstractmethod
    def _iter_batches(self, conversation_id: str, size: int) -> AsyncIterator[list[Message]]:
        """Yield the messages in the order of `_list_messages`, `size` at a time.

        Goes on after the last message yielded, even if that was deleted meanwhile.
        """

    @abstractmethod
    async def _list_newest_visible(self, conversation_id: str, n: int) -> list[Message]:
        """Return the `n` newest messages that are not flagged, oldest first; `n` is at least 1."""

    @abstractmethod
    async def _list_conversation_traces(self, conversation_id: str) -> list[TurnTrace]:
        """Return all traces by `turn_number`, ascending; equal ones first stored first."""

    @abstractmethod
    async def _list_agent_traces(self, agent_id: str, limit: int, offset: int) -> list[TurnTrace]:
        """Return traces by `started_at_ms`, newest first; equal ones latest stored first.

        Args:
            agent_id: whose traces.
            limit: how many at most; at least 1.
            offset: how many of the newest are left out.
        """

    @abstractmethod
    async def _find_traces(
        self, where: TraceFilter, limit: int, after: str | None
    ) -> list[TurnTrace]:
        """Return a page of the traces that match, in the order of `_list_agent_traces`.

        The page may begin after any stored trace, also one that does not match.
        """

    @abstractmethod
    async def _summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        """Return the sums of the traces that match, most tokens first, equal ones by key."""
