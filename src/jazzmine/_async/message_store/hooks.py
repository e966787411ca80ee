"""The methods that a back end of the message store implements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar
from uuid import UUID

from jazzmine._async.store import Store
from jazzmine.backends.trace_queries import matches, summarize
from jazzmine.errors import NotFoundError
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.context_window import CALLERS
from jazzmine.records.conversation_log import Erased
from jazzmine.records.log import AnyMessage
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.record_copy import copy_record
from jazzmine.records.repair import Repairs
from jazzmine.records.traces import TurnTrace
from jazzmine.records.types import MIN_INT
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

__all__ = ["ConversationOwner", "MessageOwner", "MessageStoreHooks", "TraceKey"]

AnyRecord = TypeVar("AnyRecord", Conversation, Message, TurnTrace)

# The field of a record that holds the id which a hook is given.
ConversationOwner: TypeAlias = Literal["user_id", "agent_id"]
MessageOwner: TypeAlias = Literal["conversation_id", "user_id"]
TraceKey: TypeAlias = Literal["id", "message_id"]


class MessageStoreHooks(Store):
    """The methods that a back end implements, beside those of every store (`Store`).

    Arguments are checked before a hook is called: ids are non-empty strings, numbers are in
    range, and a snapshot holds a valid record that no other code refers to.

    A returned record belongs to the caller and may be changed. A stored record that breaks a
    rule is read with `self._repairs`, and left out of lists with `self._repairs.listing`.
    Records with equal sort values keep the order in which their ids were first stored. With
    `after`, a page begins after the record with that id; `NotFoundError` is raised if that
    record is not in the listing. `limit=None` is no limit, `after=None` is the first page.

    The lists that are not abstract read all records of a kind, which is correct and slow: a back
    end for real data overrides each of them with a query.
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
        """Set a message's `is_flagged`; return whether the message was stored."""

    @abstractmethod
    async def _delete_message(self, message_id: str) -> bool:
        """Delete a message and its trace; return whether the message was stored."""

    @abstractmethod
    async def _delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation, its messages and their traces; return whether it was stored."""

    # A conversation as a log. Each is one step, also beside other calls on the conversation: no
    # call sees a part of it, and one that is sent again after a lost reply takes effect once.

    @abstractmethod
    async def _create_conversation(self, conversation: Snapshot[Conversation]) -> Conversation:
        """Store a conversation if there is none with its id; return the stored one."""

    @abstractmethod
    async def _append(
        self,
        conversation_id: str,
        messages: Sequence[Snapshot[Message]],
        expected_last: str | AnyMessage | None,
    ) -> list[Message]:
        """Store at least one message after all others of the conversation, and return them.

        `messages_to_append` says what is stored, and which errors are raised in which order. The
        conversation's `last_updated_at` is raised to the last stored `timestamp`, if it is lower.
        If all are stored already, nothing is written, and they are returned as they are stored.

        Args:
            conversation_id: the conversation of all messages.
            messages: each id once.
            expected_last: the id of the newest message, None if there must be none, or `ANY`.

        Raises:
            IntegrityError: the conversation is not stored, or as in `messages_to_append`.
            ConflictError: as in `messages_to_append`.
        """

    @abstractmethod
    async def _pop(self, conversation_id: str) -> Message | None:
        """Delete the newest message, flagged or not, with its trace, and return it.

        Returns:
            The message, or None if there is none.

        Raises:
            ValidationError: it cannot be read; it is still stored.
        """

    @abstractmethod
    async def _rewind(self, conversation_id: str, after: str | None) -> int:
        """Delete all messages after one of the conversation, or all, with their traces.

        Returns:
            How many messages were deleted.

        Raises:
            NotFoundError: `after` is no message of the conversation.
        """

    @abstractmethod
    async def _fork(
        self, conversation_id: str, until: str | None, copy: Snapshot[Conversation], salt: UUID
    ) -> dict[str, str]:
        """Store a conversation with copies of another one's messages and their traces.

        The copies have the same order. Their ids are new, and the same again if the call is
        repeated, as those of `forked_id` are. Message and trace name the new conversation, and a
        trace the copy of its message; all other fields are the same.

        Args:
            conversation_id: the conversation to copy.
            until: the id of the last message that is copied; None copies all.
            copy: the new conversation.
            salt: a random value, of which the new ids are made.

        Returns:
            The copies' ids by the messages' ids, in their order.

        Raises:
            NotFoundError: the conversation is not stored, or `until` is no message of it.
            ConflictError: a conversation with the new one's id is stored.
        """

    # Erasure and retention. Each call is one transaction of bounded size (a back end that writes
    # everything at once may ignore `limit`), and is called again until nothing is left.

    # The least that a step deletes: fewer records would cost less than their transaction.
    _smallest_step: ClassVar[int] = 50

    @abstractmethod
    async def _erase(self, user_id: str, limit: int) -> Erased:
        """Delete some of a user's records, and return how many; none are left if it is all 0.

        The user's conversations with all their messages and traces, the user's messages elsewhere
        with their traces, and the traces that name the user. A conversation is deleted in one
        step with the last of its messages. Nothing else that the back end keeps (such as the
        results of calls) holds the user's id or text afterwards.

        Args:
            user_id: whose records.
            limit: about how many records to delete at most; at least 1.
        """

    @abstractmethod
    async def _prune(self, ids: list[str], before: int, limit: int) -> tuple[int, int]:
        """Delete some of the records of old conversations, those of the first one first.

        Of each, the oldest messages first, and the conversation in one step with the last of them.
        One that has a `last_updated_at` or a message's `timestamp` of `before` or later in the
        transaction is left as it is.

        Args:
            ids: the conversations, at least one.
            before: a time, in ms.
            limit: about how many records to delete at most; at least 1.

        Returns:
            How many conversations were deleted, and how many of the first ids need no other step.
        """

    # One record, or None; one that cannot be read raises `ValidationError`.

    @abstractmethod
    async def _get_conversation(self, conversation_id: str) -> Conversation | None: ...

    @abstractmethod
    async def _get_message(self, message_id: str) -> Message | None: ...

    @abstractmethod
    async def _get_trace(self, by: TraceKey, key: str) -> TurnTrace | None: ...

    # Lists

    async def _get_messages(self, message_ids: Sequence[str]) -> list[Message]:
        """Return those that are stored, in the order of the ids; there is at least one id."""
        found = {message.id: message for message in await self._scan("messages", "timestamp")}
        return [copy_record(found[one]) for one in message_ids if one in found]

    async def _list_conversations(
        self, by: ConversationOwner, owner: str, limit: int | None, after: str | None
    ) -> list[Conversation]:
        """Return a page by `last_updated_at`, newest first; equal ones latest stored first."""
        found = await self._scan("conversations", "last_updated_at", **{by: owner})
        return _after(found[::-1], after)[:limit]

    async def _list_messages(
        self, by: MessageOwner, owner: str, limit: int | None, after: str | None
    ) -> list[Message]:
        """Return a page by `timestamp`, oldest first; equal ones first stored first."""
        return _after(await self._scan("messages", "timestamp", **{by: owner}), after)[:limit]

    async def _iter_batches(self, conversation_id: str, size: int) -> AsyncIterator[list[Message]]:
        """Yield the messages in the order of `_list_messages`, `size` at a time.

        Continues after the last message yielded, even if that was deleted meanwhile.
        """
        last = MIN_INT
        seen: set[str] = set()  # the last message may have been deleted when iteration goes on
        while batch := [
            message
            for message in await self._list_messages("conversation_id", conversation_id, None, None)
            if message.timestamp >= last and message.id not in seen
        ][:size]:
            last = batch[-1].timestamp
            seen.update(message.id for message in batch)
            yield batch

    async def _list_newest(
        self, conversation_id: str, calls: bool, limit: int, after: str | None
    ) -> list[Message]:
        """Return a page of the messages that are not flagged, newest first, in one round trip.

        The page may begin after any message of the conversation, also after a flagged one.

        Args:
            conversation_id: whose messages.
            calls: whether flagged messages of an assistant or a colleague are in the page, too:
                their tools' answers must not be shown without them.
            limit: how many at most; at least 1.
            after: the id of the last message of the page before, or None.
        """
        found = await self._scan("messages", "timestamp", conversation_id=conversation_id)
        callers = CALLERS if calls else ()
        rest = _after(found[::-1], after)
        return [one for one in rest if not one.is_flagged or one.role in callers][:limit]

    async def _list_conversation_traces(self, conversation_id: str) -> list[TurnTrace]:
        """Return all traces by `turn_number`, ascending; equal ones first stored first."""
        return await self._scan("traces", "turn_number", conversation_id=conversation_id)

    async def _list_agent_traces(self, agent_id: str, limit: int, offset: int) -> list[TurnTrace]:
        """Return traces by `started_at_ms`, newest first; equal ones latest stored first.

        Args:
            agent_id: the agent.
            limit: the maximum number of traces, at least 1.
            offset: how many of the newest traces to skip.
        """
        found = await self._scan("traces", "started_at_ms", agent_id=agent_id)
        return found[::-1][offset : offset + limit]

    async def _find_traces(
        self, where: TraceFilter, limit: int, after: str | None
    ) -> list[TurnTrace]:
        """Return a page of the traces that match, in the order of `_list_agent_traces`.

        The page may begin after any stored trace, also one that does not match.
        """
        found = _after((await self._scan("traces", "started_at_ms"))[::-1], after)
        return [trace for trace in found if matches(where, trace)][:limit]

    async def _summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        """Return the sums of the traces that match, most tokens first, equal ones by key."""
        found = await self._scan("traces", "started_at_ms")
        return summarize((trace for trace in found if matches(where, trace)), by)

    # All records, for programs that show or move a whole store.

    async def _list_all_conversations(
        self, limit: int | None, after: str | None
    ) -> list[Conversation]:
        """Return a page of all conversations, in the order of `_list_conversations`."""
        return _after((await self._scan("conversations", "last_updated_at"))[::-1], after)[:limit]

    @abstractmethod
    def _iter_stored(self, kind: RecordKind, size: int) -> AsyncIterator[list[Any]]:
        """Yield all records of a kind in the order in which their ids were first stored.

        Args:
            kind: which records.
            size: how many at a time, at the most.
        """

    async def _iter_old(self, before: int, size: int) -> AsyncIterator[list[str]]:
        """Yield the ids of the conversations to prune, oldest `last_updated_at` first.

        Those whose `last_updated_at` is less than `before`. Some that have a newer message may be
        there, which `_prune` leaves as they are.

        Args:
            before: a time, in ms.
            size: how many at a time; a back end that writes everything at once may ignore it.
        """
        found = await self._scan("conversations", "last_updated_at")
        old = [one.id for one in found if one.last_updated_at < before]
        for start in range(0, len(old), size):
            yield old[start : start + size]

    async def _scan(self, kind: RecordKind, order: str, **values: str) -> list[Any]:
        """Return the records of a kind that have these values, ascending by a field."""
        found = [record async for batch in self._iter_stored(kind, 1_000) for record in batch]
        wanted = [
            one for one in found if all(getattr(one, name) == values[name] for name in values)
        ]
        return sorted(wanted, key=attrgetter(order))

    async def _store_many(
        self,
        conversations: Sequence[Snapshot[Conversation]],
        messages: Sequence[Snapshot[Message]],
        traces: Sequence[Snapshot[TurnTrace]],
    ) -> None:
        """Store records of each kind, in this order; no id, and no trace's message, is there twice.

        Not all or nothing unless a back end says so, but safe to repeat.
        """
        for conversation in conversations:
            await self._store_conversation(conversation)
        if messages:
            await self._store_messages(messages)
        for trace in traces:
            await self._store_trace(trace)


def _after(records: list[AnyRecord], after: str | None) -> list[AnyRecord]:
    """Return the records after the one with an id; None returns all.

    Raises:
        NotFoundError: there is no record with the id.
    """
    ids = [None, *(record.id for record in records)]
    if after not in ids:
        raise NotFoundError(f"after={after!r} is no record of this listing")
    return records[ids.index(after) :]
