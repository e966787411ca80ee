"""The message store: its public methods, and the checks that all back ends share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TypeVar

from jazzmine._async.message_store.log import ConversationLog
from jazzmine._async.message_store.pages import filled
from jazzmine._async.tracing import traced
from jazzmine.records.arguments import require_count, require_id, require_usage_key
from jazzmine.records.base import Record, snapshot, snapshot_all
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.repair import PartialPage
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

__all__ = ["MessageStore"]

AnyRecord = TypeVar("AnyRecord", bound=Record)


@traced("jazzmine.message_store")
class MessageStore(ConversationLog):
    """Conversations, their messages, and a trace of every turn.

    On every back end:

    - Messages are ordered by `timestamp`, equal ones by the order in which their ids were
      first stored; storing one again never moves it.
    - A write that returned is durable, one that raised changed nothing, and each may be
      repeated: nothing is doubled.
    - `after` is the id of the last record of the page before; `limit=None` is no limit.
    - What a method returns belongs to the caller.

    Every method raises `TypeError` for an id or a record of another type, `ValidationError`
    for a value that the back ends cannot hold, `ValueError` for a number out of range,
    `StoreClosedError` after `close()`, `StoreUnavailableError` when the server cannot be
    reached, and `OSError` when the file of a JSON store cannot be read or written.
    """

    @classmethod
    async def initialize(cls, config: Mapping[str, object] | str | None = None) -> MessageStore:
        """Open a store.

        Args:
            config: a mapping with `storage` ("json" by default) and the options of that back
                end, or a URL such as `json:messages.json`; None takes the URL in the
                environment variable JAZZMINE_MESSAGE_STORE, or else `json:messages.json`.

        Raises:
            ConfigurationError: the configuration has an unknown key or a wrong value.
            ImportError: the back end's driver is not installed.
            StoreUnavailableError: the server cannot be reached.
            OSError, JSONDecodeError, ValidationError: the file cannot be read.
        """
        # Only a program that opens a store pays for this import.
        from jazzmine._async.message_store.factory import new_store
        from jazzmine.config import message_store_config

        store: MessageStore = new_store(message_store_config(config))
        return await store._opened()

    # Conversations

    async def store_conversation(self, conversation: Conversation) -> None:
        """Store a conversation, in place of the one with the same id if there is one."""
        self._check()
        await self._store_conversation(snapshot(conversation, Conversation))

    async def update_conversation(self, conversation: Conversation) -> None:
        """Do the same as `store_conversation`."""
        self._check()
        await self._store_conversation(snapshot(conversation, Conversation))

    async def get_conversation_by_id(self, conversation_id: str) -> Conversation | None:
        """Return the conversation, or None."""
        self._check()
        return await self._get_conversation(require_id("conversation_id", conversation_id))

    async def get_conversations_by_user_id(
        self, user_id: str, *, limit: int | None = None, after: str | None = None
    ) -> list[Conversation]:
        """Return a user's conversations, newest `last_updated_at` first.

        Equal ones come latest stored first.

        Raises:
            NotFoundError: `after` is no conversation of this user.
        """
        self._check()
        owner = require_id("user_id", user_id)
        return await filled(self._list_conversations, ("user_id", owner), *_page(limit, after))

    async def get_conversations_by_agent_id(
        self, agent_id: str, *, limit: int | None = None, after: str | None = None
    ) -> list[Conversation]:
        """Return an agent's conversations, newest `last_updated_at` first.

        Equal ones come latest stored first.

        Raises:
            NotFoundError: `after` is no conversation of this agent.
        """
        self._check()
        owner = require_id("agent_id", agent_id)
        return await filled(self._list_conversations, ("agent_id", owner), *_page(limit, after))

    async def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation, its messages and their traces; return whether it was stored."""
        self._check()
        return await self._delete_conversation(require_id("conversation_id", conversation_id))

    # Messages

    async def store_message(self, message: Message) -> None:
        """Store a message, in place of the one with the same id if there is one.

        Raises:
            IntegrityError: its conversation is not stored.
        """
        self._check()
        await self._store_messages([snapshot(message, Message)])

    async def update_message(self, message: Message) -> None:
        """Do the same as `store_message`."""
        self._check()
        await self._store_messages([snapshot(message, Message)])

    async def store_messages(self, messages: Iterable[Message]) -> None:
        """Store all of the messages or none; of two with one id, the later one.

        Raises:
            IntegrityError: the conversation of one of them is not stored.
        """
        self._check()
        snapshots = snapshot_all(messages, Message)
        if snapshots:
            await self._store_messages(snapshots)

    async def get_message_by_id(self, message_id: str) -> Message | None:
        """Return the message, or None."""
        self._check()
        return await self._get_message(require_id("message_id", message_id))

    async def get_messages_by_ids(self, message_ids: Iterable[str]) -> list[Message]:
        """Return those of the messages that are stored, in the order asked for."""
        self._check()
        if isinstance(message_ids, str):
            raise TypeError("message_ids must be several ids, not one str")
        wanted = [require_id("message_ids", message_id) for message_id in message_ids]
        return _as_list(await self._get_messages(wanted)) if wanted else []

    async def get_messages_by_conversation_id(
        self, conversation_id: str, *, limit: int | None = None, after: str | None = None
    ) -> list[Message]:
        """Return a conversation's messages, oldest first.

        Raises:
            NotFoundError: `after` is no message of this conversation.
        """
        self._check()
        owner = require_id("conversation_id", conversation_id)
        return await filled(self._list_messages, ("conversation_id", owner), *_page(limit, after))

    async def get_messages_by_user_id(
        self, user_id: str, *, limit: int | None = None, after: str | None = None
    ) -> list[Message]:
        """Return a user's messages, oldest first.

        Raises:
            NotFoundError: `after` is no message of this user.
        """
        self._check()
        owner = require_id("user_id", user_id)
        return await filled(self._list_messages, ("user_id", owner), *_page(limit, after))

    def iter_messages(
        self, conversation_id: str, *, batch_size: int = 500
    ) -> AsyncIterator[Message]:
        """Iterate over a conversation's messages, oldest first, in constant memory.

        Args:
            conversation_id: a conversation; one that is not stored has no messages.
            batch_size: how many messages are read at once.
        """
        self._check()
        owner = require_id("conversation_id", conversation_id)
        return self._one_by_one(owner, require_count("batch_size", batch_size, least=1))

    async def _one_by_one(self, conversation_id: str, size: int) -> AsyncIterator[Message]:
        self._check()
        async for batch in self._iter_batches(conversation_id, size):
            for message in batch:
                yield message
                self._check()

    async def get_immediate_context(self, conversation_id: str, n: int) -> list[Message]:
        """Return the `n` newest messages that are not flagged, oldest first."""
        self._check()
        owner = require_id("conversation_id", conversation_id)
        if not require_count("n", n):
            return []
        newest = await filled(self._list_newest, (owner, False), n, None)
        return newest[::-1]

    async def delete_message(self, message_id: str) -> bool:
        """Delete a message and its trace; return whether it was stored."""
        self._check()
        return await self._delete_message(require_id("message_id", message_id))

    async def flag_message(self, message_id: str, flagged: bool = True) -> bool:
        """Set or clear the flag that keeps a message out of the immediate context.

        Returns:
            Whether the message was stored.
        """
        self._check()
        if not isinstance(flagged, bool):
            raise TypeError(f"flagged must be True or False, not {type(flagged).__name__}")
        return await self._flag_message(require_id("message_id", message_id), flagged)

    # Traces

    async def store_turn_trace(self, trace: TurnTrace) -> None:
        """Store a turn's trace, in place of any other that its message has.

        Raises:
            IntegrityError: its message is not stored, or its id belongs to another message.
        """
        self._check()
        await self._store_trace(snapshot(trace, TurnTrace))

    async def get_turn_trace_by_id(self, trace_id: str) -> TurnTrace | None:
        """Return the trace, or None."""
        self._check()
        return await self._get_trace("id", require_id("trace_id", trace_id))

    async def get_turn_trace_by_message_id(self, message_id: str) -> TurnTrace | None:
        """Return the trace of a message, or None."""
        self._check()
        return await self._get_trace("message_id", require_id("message_id", message_id))

    async def get_turn_traces_by_conversation_id(self, conversation_id: str) -> list[TurnTrace]:
        """Return a conversation's traces by `turn_number`, ascending."""
        self._check()
        owner = require_id("conversation_id", conversation_id)
        return _as_list(await self._list_conversation_traces(owner))

    async def get_turn_traces_by_agent_id(
        self, agent_id: str, limit: int = 100, offset: int = 0
    ) -> list[TurnTrace]:
        """Return an agent's traces, newest `started_at_ms` first, equal ones latest stored first.

        Args:
            agent_id: the agent.
            limit: the maximum number of traces.
            offset: how many of the newest traces to skip.
        """
        self._check()
        owner = require_id("agent_id", agent_id)
        count, skipped = require_count("limit", limit), require_count("offset", offset)
        return _as_list(await self._list_agent_traces(owner, count, skipped)) if count else []

    async def store_turn(
        self,
        *,
        conversation: Conversation | None = None,
        messages: Iterable[Message] = (),
        trace: TurnTrace | None = None,
    ) -> None:
        """Store the records of a turn, all of them or none; safe to repeat.

        Args:
            conversation: the conversation as it is after the turn.
            messages: the turn's messages.
            trace: the turn's trace; its message may be one of `messages`.

        Raises:
            IntegrityError: as in `store_messages` and `store_turn_trace`.
        """
        self._check()
        stored = None if conversation is None else snapshot(conversation, Conversation)
        snapshots = snapshot_all(messages, Message)
        traced = None if trace is None else snapshot(trace, TurnTrace)
        if stored is not None or snapshots or traced is not None:
            await self._store_turn(stored, snapshots, traced)

    async def find_turn_traces(
        self, where: TraceFilter, *, limit: int = 100, after: str | None = None
    ) -> list[TurnTrace]:
        """Return the traces that match a filter, newest `started_at_ms` first.

        Equal ones come latest stored first.

        Raises:
            NotFoundError: `after` is the id of no trace.
        """
        self._check()
        wanted = snapshot(where, TraceFilter).record
        count, after = require_count("limit", limit), _page(None, after)[1]
        return await filled(self._find_traces, (wanted,), count, after) if count else []

    async def summarize_usage(self, where: TraceFilter, *, by: UsageKey) -> list[UsageSummary]:
        """Sum up the traces that match a filter, one summary per group, most tokens first.

        Args:
            where: which traces to sum up.
            by: "agent", "user", "conversation", "intent", "model" or "day" (UTC).
        """
        self._check()
        return await self._summarize(snapshot(where, TraceFilter).record, require_usage_key(by))


def _as_list(found: list[AnyRecord]) -> list[AnyRecord]:
    return list(found) if isinstance(found, PartialPage) else found


def _page(limit: int | None, after: str | None) -> tuple[int | None, str | None]:
    return (
        None if limit is None else require_count("limit", limit),
        None if after is None else require_id("after", after),
    )
