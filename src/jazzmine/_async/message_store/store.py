"""The message store: its public methods, and the checks that all back ends share."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from jazzmine._async.message_store.backend import MessageBackend
from jazzmine._async.message_store.deletion import delete_in_steps, prune_in_steps
from jazzmine._async.message_store.forking import fork_decrypted
from jazzmine._async.message_store.searching import (
    find_best,
    find_newest,
    find_spans,
    require_search,
)
from jazzmine._async.message_store.window import read_window
from jazzmine._async.operation import operation
from jazzmine._async.store import Store
from jazzmine._compat.concurrency import AsyncWork as Work
from jazzmine._compat.concurrency import async_run_blocking as run_blocking
from jazzmine.deadline import begin_call
from jazzmine.encryption.codecs import NO_SEARCH
from jazzmine.encryption.records import RecordCodec, require_readable
from jazzmine.encryption.sampled import SAMPLED, require_right_keys
from jazzmine.errors import ConfigurationError, ConflictError, NotFoundError
from jazzmine.records.arguments import (
    require_count,
    require_id,
    require_ids,
    require_message_order,
    require_metadata,
    require_roles,
    require_search_order,
    require_text,
    require_time,
    require_usage_key,
)
from jazzmine.records.base import Record, RecordKind, Snapshot, snapshot, snapshot_all
from jazzmine.records.context_window import LEAST_TOKENS, ContextWindow, estimated_tokens
from jazzmine.records.conversation_log import (
    Refusal,
    distinct,
    fork_salt,
    forked_id,
    in_order,
    merged,
    messages_stored_before,
    not_before,
    require_one_conversation,
)
from jazzmine.records.hook_arguments import (
    Append,
    ConversationPage,
    Fork,
    MessagePage,
    NewestPage,
    TracePage,
    Turn,
)
from jazzmine.records.json_values import contains
from jazzmine.records.log import ANY, NOTHING, AnyMessage, Erasure, Nothing
from jazzmine.records.messages import (
    Conversation,
    FoundMessage,
    Message,
    MessageOrder,
    MessageRole,
    SearchOrder,
    require_editable,
)
from jazzmine.records.rows import Row, RowDecoder, are_many, row_id
from jazzmine.records.traces import TurnTrace
from jazzmine.records.types import MAX_INT
from jazzmine.records.unreadable import Unreadable
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary
from jazzmine.search.query import SearchScope, parse_query
from jazzmine.tracing import call_span, count_records

__all__ = ["MessageStore"]

logger: logging.Logger = logging.getLogger(__name__)

# How many messages are read at once to see which have the time of another one.
_SAME_TIME = 20

AnyRecord = TypeVar("AnyRecord", bound=Record)
AnyPage = TypeVar("AnyPage", ConversationPage, MessagePage, NewestPage, TracePage)
KeepRows: TypeAlias = Work[Sequence[Row]]


class MessageStore(Store[MessageBackend]):
    """Conversations, their messages, and a trace of every turn.

    On every back end:

    - Messages are ordered by `timestamp`, equal ones by the order in which their ids were
      first stored; storing one again never moves it.
    - A write that returned is durable, and each may be repeated: nothing is doubled. One that
      raised changed nothing, except that after `StoreUnavailableError` it is not known whether
      it took effect.
    - A message never moves to another conversation, nor a trace to another message.
    - `after` is the id of the last record of the page before; `limit=None` is no limit.
    - What a method returns belongs to the caller.

    Every method raises `TypeError` for an id or a record of another type, `ValidationError`
    for a value that the back ends cannot hold, `ValueError` for a number out of range,
    `StoreClosedError` after `close()`, `StoreUnavailableError` when the server cannot be
    reached, and `OSError` when the file of a JSON store cannot be read or written.
    """

    scope = "jazzmine.message_store"

    def __init__(self, backend: MessageBackend, codec: RecordCodec | None = None) -> None:
        super().__init__(backend)
        self.codec: RecordCodec | None = codec
        unreadable = Unreadable()
        self._conversations = RowDecoder(Conversation, unreadable, codec)
        self._messages = RowDecoder(Message, unreadable, codec)
        self._traces = RowDecoder(TurnTrace, unreadable, codec)

    @classmethod
    async def initialize(
        cls, config: Mapping[str, object] | str | os.PathLike[str] | None = None
    ) -> MessageStore:
        """Open a store.

        Args:
            config: a mapping with `storage` ("json" by default) and the options of that back
                end, a URL such as `json:messages.json`, or a path whose end says what is there,
                such as `Path("agent.db")`; None takes the URL in the environment variable
                JAZZMINE_MESSAGE_STORE, or else `json:messages.json`.

        Raises:
            ConfigurationError: the configuration has an unknown key or a wrong value.
            ImportError: the back end's driver is not installed.
            StoreUnavailableError: the server cannot be reached.
            OSError, JSONDecodeError, ValidationError: the file cannot be read.
        """
        # Only a program that opens a store pays for this import.
        from jazzmine._async.factory import new_message_store
        from jazzmine.config import message_store_config

        store: MessageStore = new_message_store(message_store_config(config))
        return await store._initialized()

    async def _opened(self) -> None:
        if self.codec is None:
            return
        if await self.backend.search_state() is not None:
            raise ConfigurationError(NO_SEARCH)
        await self._require_right_keys(self.codec)

    async def _require_right_keys(self, codec: RecordCodec) -> None:
        newest = ConversationPage(None, "", {}, SAMPLED, None)
        conversations = await self.backend.list_conversations(newest)
        messages: Sequence[Row] = ()
        if conversations:
            page = NewestPage(row_id(conversations[0]), "all", SAMPLED, None)
            messages = await self.backend.list_newest(page)
        kinds: list[tuple[RowDecoder[Any], Sequence[Row]]] = [
            (self._conversations, conversations),
            (self._messages, messages),
        ]
        require_right_keys(
            codec.keyring,
            [(decoder, row) for decoder, rows in kinds for row in rows],
            lambda one: codec.key_id(one[0].stored_record(one[1])),
            lambda one: one[0].record(one[1]),
        )

    def scoped(self, *, user_id: str) -> MessageStore:
        """Return a store that sees and changes what is in this user's conversations alone.

        It uses the same connections, and closing it closes nothing else; make one for each request.
        Records of other users have the same results as records that are not stored.

        Args:
            user_id: whose records.

        Raises:
            ScopeError: this store is scoped to another user.
        """
        from jazzmine._async.factory import view_of_message_store

        view: MessageStore = view_of_message_store(self, require_id("user_id", user_id))
        return view

    # Conversations

    @operation()
    async def store_conversation(self, conversation: Conversation) -> None:
        """Store a conversation, in place of the one with the same id if there is one."""
        await self.backend.store(Turn(self._encoded(snapshot(conversation, Conversation))))

    @operation()
    async def update_conversation(self, conversation: Conversation) -> None:
        """Do the same as `store_conversation`."""
        await self.backend.store(Turn(self._encoded(snapshot(conversation, Conversation))))

    @operation()
    async def get_or_create_conversation(self, conversation: Conversation) -> Conversation:
        """Return the stored conversation with the same id; store this one if there is none."""
        given = snapshot(conversation, Conversation)
        row = await self.backend.create_conversation(self._encoded(given))
        return given.record if row is None else self._conversations.record(row)

    @operation()
    async def edit_conversation(
        self,
        conversation_id: str,
        *,
        title: str | None = None,
        default_title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Conversation:
        """Change the title and some of the metadata of a conversation, and nothing else.

        Args:
            conversation_id: which conversation.
            title: the new title; None leaves it as it is.
            default_title: a title for a conversation that has none, such as one that a model has
                made; a title that somebody has set meanwhile stays.
            metadata: the values to set by key, whatever other keys there are; None as a value
                removes a key.

        Returns:
            The conversation as it is stored now.

        Raises:
            NotFoundError: the conversation is not stored.
        """
        owner = require_id("conversation_id", conversation_id)
        changes = require_metadata("metadata", metadata)
        new_title = None if title is None else require_text("title", title)
        default = "" if default_title is None else require_text("default_title", default_title)

        def edited(stored: Conversation) -> Conversation:
            text = (stored.title or default) if new_title is None else new_title
            fields = {"title": text, "metadata": merged(stored.metadata, changes)}
            return stored.model_copy(update=fields)

        return await self._edit("conversations", self._conversations, Conversation, owner, edited)

    @operation("conversations")
    async def get_conversation_by_id(self, conversation_id: str) -> Conversation | None:
        """Return the conversation, or None."""
        row = await self.backend.get_conversation(require_id("conversation_id", conversation_id))
        return None if row is None else self._conversations.record(row)

    @operation("conversations")
    async def get_conversations(
        self,
        *,
        where: Mapping[str, Any] | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Conversation]:
        """Return all conversations, newest `last_updated_at` first.

        Args:
            where: only those whose `metadata` has these keys with these values; None as a value
                wants the key to be there with null.
            limit: how many at most; None is no limit.
            after: the id of the last conversation of the page before.

        Raises:
            NotFoundError: `after` is no conversation.
        """
        page = ConversationPage(None, "", require_metadata("where", where), limit, after)
        return await self._list_conversations(page)

    @operation("conversations")
    async def get_conversations_by_user_id(
        self,
        user_id: str,
        *,
        where: Mapping[str, Any] | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Conversation]:
        """Return a user's conversations, newest `last_updated_at` first.

        Equal ones come latest stored first.

        Args:
            user_id: whose conversations.
            where: as in `get_conversations`.
            limit: how many at most; None is no limit.
            after: the id of the last conversation of the page before.

        Raises:
            NotFoundError: `after` is no conversation of this user.
        """
        owner, wanted = require_id("user_id", user_id), require_metadata("where", where)
        page = ConversationPage("user_id", owner, wanted, limit, after)
        return await self._list_conversations(page)

    @operation("conversations")
    async def get_conversations_by_agent_id(
        self,
        agent_id: str,
        *,
        user_id: str | None = None,
        where: Mapping[str, Any] | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Conversation]:
        """Return an agent's conversations, newest `last_updated_at` first.

        Equal ones come latest stored first.

        Args:
            agent_id: whose conversations.
            user_id: only those with this user.
            where: as in `get_conversations`.
            limit: how many at most; None is no limit.
            after: the id of the last conversation of the page before.

        Raises:
            NotFoundError: `after` is no conversation of this agent.
        """
        owner, wanted = require_id("agent_id", agent_id), require_metadata("where", where)
        user = None if user_id is None else require_id("user_id", user_id)
        page = ConversationPage("agent_id", owner, wanted, limit, after, user)
        return await self._list_conversations(page)

    async def _list_conversations(self, page: ConversationPage) -> list[Conversation]:
        read, where = self.backend.list_conversations, page.where
        if self.codec is None or not where:
            return await self._page(self._conversations, read, page)

        # The metadata is encrypted: each conversation is read and decrypted.
        def matches(conversation: Conversation) -> bool:
            return contains(conversation.metadata, where)

        page = page._replace(where={})
        return await self._page(self._conversations, read, page, matches=matches)

    @operation("conversations")
    async def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation, its messages and their traces; return whether it was stored."""
        owner = require_id("conversation_id", conversation_id)
        return await self.backend.delete_conversation(owner)

    # Messages

    @operation()
    async def store_message(self, message: Message) -> None:
        """Store a message, in place of the one with the same id if there is one.

        Raises:
            IntegrityError: its conversation is not stored, or a message with its id is stored in
                another one.
        """
        await self.backend.store(Turn(messages=[self._encoded(snapshot(message, Message))]))

    @operation()
    async def update_message(self, message: Message) -> None:
        """Do the same as `store_message`."""
        await self.backend.store(Turn(messages=[self._encoded(snapshot(message, Message))]))

    @operation()
    async def edit_message(self, message_id: str, **fields: Any) -> Message:
        """Change some fields of a stored message, and nothing else, in one step.

        For the text of an answer that is streamed, what an analysis has found, a label, a review:
        a message that was deleted meanwhile stays deleted, and a flag that was set stays set.

        Args:
            message_id: which message.
            **fields: the new values by the names of the fields. `metadata` is merged by key: None
                as a value removes a key. Not `id`, `conversation_id`, `user_id`, `role`,
                `timestamp` and `is_flagged`.

        Returns:
            The message as it is stored now.

        Raises:
            NotFoundError: the message is not stored.
            TypeError: a field cannot be edited, or is none.
            ValidationError: a value is none of the field's.
        """
        wanted = require_id("message_id", message_id)
        changes = require_editable(fields)
        values = require_metadata("metadata", changes.pop("metadata", None))

        def edited(stored: Message) -> Message:
            metadata = merged(stored.metadata, values)
            return stored.model_copy(update={**changes, "metadata": metadata})

        return await self._edit("messages", self._messages, Message, wanted, edited)

    @operation()
    async def store_messages(self, messages: Iterable[Message]) -> None:
        """Store all of the messages or none; of two with one id, the later one.

        Raises:
            IntegrityError: as in `store_message`, for one of them.
        """
        snapshots = distinct(snapshot_all(messages, Message))
        if snapshots:
            await self.backend.store(Turn(messages=list(map(self._encoded, snapshots))))

    @operation("messages")
    async def get_message_by_id(self, message_id: str) -> Message | None:
        """Return the message, or None."""
        row = await self.backend.get_message(require_id("message_id", message_id))
        return None if row is None else self._messages.record(row)

    @operation("messages")
    async def get_messages_by_ids(self, message_ids: Iterable[str]) -> list[Message]:
        """Return those of the messages that are stored, in the order asked for."""
        wanted = require_ids("message_ids", message_ids)
        if not wanted:
            return []
        return await self._decoded(self._messages, await self.backend.get_messages(wanted))

    @operation("messages")
    async def get_messages_by_conversation_id(
        self,
        conversation_id: str,
        *,
        order: MessageOrder = "oldest",
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Message]:
        """Return a page of a conversation's messages, flagged ones included.

        Args:
            conversation_id: a conversation; one that is not stored has no messages.
            order: "oldest" for the oldest first, "newest" for the newest first, as for a page
                that opens at the end of the conversation.
            limit: how many at most; None is no limit.
            after: the id of the last message of the page before.

        Raises:
            NotFoundError: `after` is no message of this conversation.
        """
        owner = require_id("conversation_id", conversation_id)
        if require_message_order(order) == "newest":
            newest = NewestPage(owner, "all", MAX_INT if limit is None else limit, after)
            return await self._page(self._messages, self.backend.list_newest, newest)
        page = MessagePage("conversation_id", owner, limit, after)
        return await self._page(self._messages, self.backend.list_messages, page)

    @operation()
    async def count_messages(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        """Return how many messages each of some conversations has, flagged ones included.

        Args:
            conversation_ids: which conversations.

        Returns:
            The numbers by the ids, in the order asked for; 0 for one that is not stored.
        """
        wanted = require_ids("conversation_ids", conversation_ids)
        if not wanted:
            return {}
        counts = await self.backend.count_messages(wanted)
        return {conversation_id: counts.get(conversation_id, 0) for conversation_id in wanted}

    @operation("messages")
    async def get_messages_by_user_id(
        self, user_id: str, *, limit: int | None = None, after: str | None = None
    ) -> list[Message]:
        """Return a user's messages, oldest first.

        Raises:
            NotFoundError: `after` is no message of this user.
        """
        page = MessagePage("user_id", require_id("user_id", user_id), limit, after)
        return await self._page(self._messages, self.backend.list_messages, page)

    def iter_messages(
        self, conversation_id: str, *, batch_size: int = 500
    ) -> AsyncIterator[Message]:
        """Iterate over a conversation's messages, oldest first, in constant memory.

        Args:
            conversation_id: a conversation; one that is not stored has no messages.
            batch_size: how many messages are read at once.
        """
        self.require_open()
        owner = require_id("conversation_id", conversation_id)
        return self._one_by_one(owner, require_count("batch_size", batch_size, least=1))

    async def _one_by_one(self, conversation_id: str, size: int) -> AsyncIterator[Message]:
        cursor: Any = None
        while True:
            self.require_open()
            begin_call()  # also where an interrupted call has left when it began
            with call_span(self, "iter_messages", {"conversation_id": conversation_id}) as span:
                batch = await self.backend.next_messages(conversation_id, cursor, size)
                messages = await self._decoded(self._messages, batch.rows, conversation_id)
                count_records(span, "messages", messages)
            for message in messages:
                yield message
                self.require_open()
            if len(batch.rows) < size:
                return
            cursor = batch.cursor

    @operation("messages")
    async def get_immediate_context(self, conversation_id: str, n: int) -> list[Message]:
        """Return the `n` newest messages that are not flagged, oldest first.

        A tool's answer and its call are there together or not at all, as in `get_context_window`.
        """
        owner = require_id("conversation_id", conversation_id)
        count = require_count("n", n)
        return await self._window(
            owner, lambda: ContextWindow(count, lambda _: 1, least=1, is_even=True), None
        )

    @operation("messages")
    async def get_context_window(
        self,
        conversation_id: str,
        *,
        max_tokens: int,
        count_tokens: Callable[[Message], int] | None = None,
        after: str | None = None,
    ) -> list[Message]:
        """Return the newest messages that are not flagged and fit into a model's window.

        They end where the next older message would not fit: if the newest one alone costs more than
        the window holds, there is none. The answers of tools are returned with their
        call: the nearest message before them with their `metadata["tool_call_id"]` in its
        `metadata["tool_calls"]`; without that id the nearest one of an assistant or a
        colleague. A call of which an answer is flagged or deleted is left out, and so is an answer
        without its call. A window ends before more than 100 answers in a row, so that its
        cost follows what it returns.

        Args:
            conversation_id: a conversation; one that is not stored has no messages.
            max_tokens: what the messages may cost together.
            count_tokens: returns the cost of a message; by default a quarter of the UTF-8 bytes
                of its `enhanced_message`, or of its `original_content` if that is empty, and of
                the JSON of its `metadata["tool_calls"]`, and 4.
            after: the id of the last message that a summary stands for: nothing up to that
                message is returned.

        Returns:
            The messages, oldest first.

        Raises:
            NotFoundError: `after` is no message of this conversation.
        """
        owner = require_id("conversation_id", conversation_id)
        budget = require_count("max_tokens", max_tokens)
        if count_tokens is not None and not callable(count_tokens):
            raise TypeError(f"count_tokens must be callable, not {type(count_tokens).__name__}")
        count = count_tokens or estimated_tokens
        least = LEAST_TOKENS if count_tokens is None else 0
        return await self._window(
            owner,
            lambda: ContextWindow(budget, count, least=least),
            None if after is None else require_id("after", after),
        )

    async def _window(
        self, conversation_id: str, new_window: Callable[[], ContextWindow], after: str | None
    ) -> list[Message]:
        row = None if after is None else await self.backend.get_message(after)
        last = None if row is None else self._messages.record(row)
        if after is not None and (last is None or last.conversation_id != conversation_id):
            raise NotFoundError(f"after={after!r} is no message of this conversation")
        later = set() if last is None else await self._of_the_same_time(last)

        def is_within(message: Message) -> bool:
            if last is None or message.timestamp > last.timestamp:
                return True
            return message.id in later

        async def read_page(calls: bool, size: int, after: str | None) -> list[Message]:
            page = NewestPage(conversation_id, "calls" if calls else "none", size, after)
            return await self._page(self._messages, self.backend.list_newest, page)

        return await read_window(read_page, new_window, is_within)

    async def _of_the_same_time(self, message: Message) -> set[str]:
        """Return the ids of the messages after one that have its time, too."""
        later: set[str] = set()
        page = MessagePage("conversation_id", message.conversation_id, _SAME_TIME, message.id)
        while True:
            read = await self._page(self._messages, self.backend.list_messages, page)
            later |= {one.id for one in read if one.timestamp == message.timestamp}
            if len(read) < _SAME_TIME or read[-1].timestamp > message.timestamp:
                return later
            page = page._replace(after=read[-1].id)

    @operation("messages")
    async def delete_message(self, message_id: str) -> bool:
        """Delete a message and its trace, which sums of usage do not count any more.

        Returns:
            Whether the message was stored.
        """
        return await self.backend.delete_message(require_id("message_id", message_id))

    @operation("messages")
    async def flag_message(self, message_id: str, flagged: bool = True) -> bool:
        """Set or clear the flag that keeps a message out of the immediate context.

        Returns:
            Whether the message was stored.
        """
        if not isinstance(flagged, bool):
            raise TypeError(f"flagged must be True or False, not {type(flagged).__name__}")
        return await self.backend.flag_message(require_id("message_id", message_id), flagged)

    # A conversation as a log

    @operation()
    async def append_messages(
        self,
        conversation_id: str,
        messages: Iterable[Message],
        *,
        expected_last: str | AnyMessage | None = ANY,
        trace: TurnTrace | None = None,
        replace_after: str | Nothing | None = NOTHING,
    ) -> list[Message]:
        """Store new messages after all others of a conversation, all of them or none.

        Appends to one conversation take effect one after another. A `timestamp` earlier than that
        of the newest message is raised to it, and the conversation's `last_updated_at` is raised
        to the last one. If all of the messages are stored already, with the same content
        (`timestamp` and `is_flagged` aside), nothing is changed: the call may be repeated.

        Args:
            conversation_id: the conversation of all messages.
            messages: in order; none is allowed, and nothing is done.
            expected_last: the id of the newest message that the caller has read, flagged ones
                included, or None for a conversation without messages; by default any.
            trace: the trace of the turn, stored in the same step; its message is one of those
                appended.
            replace_after: the id of a message, or None for all: what stands after it is deleted in
                the same step, before the messages are appended. So regenerating an answer and
                editing a question are one call, made after the model has answered. Traces go
                with their messages, and sums of usage do not count them any more.

        Returns:
            The messages as they are stored.

        Raises:
            ConflictError: another message than `expected_last` is the newest; it is `newest_id`.
            IntegrityError: the conversation is not stored, an id is stored already with another
                content, or only some of the ids are stored.
            NotFoundError: `replace_after` is no message of the conversation.
            ValueError: a message is of another conversation, two messages have one id, or the
                trace is of none of them.
        """
        owner = require_id("conversation_id", conversation_id)
        if expected_last is not None and expected_last is not ANY:
            expected_last = require_id("expected_last", expected_last)
        if replace_after is not None and replace_after is not NOTHING:
            replace_after = require_id("replace_after", replace_after)
        snapshots = snapshot_all(messages, Message)
        of_trace = None if trace is None else snapshot(trace, TurnTrace)
        require_one_conversation(owner, snapshots, of_trace)
        if not snapshots:
            return []
        ordered = in_order(snapshots)
        encoded = list(map(self._encoded, ordered))
        trace_encoded = None if of_trace is None else self._encoded(of_trace)
        given = Append(owner, encoded, expected_last, trace_encoded, replace_after)
        found = await self.backend.append(given)
        if isinstance(found, Refusal):
            records = map(self._messages.record, found.stored)
            stored = {record.id: record for record in records}
            return messages_stored_before(
                ordered, stored, found, owner, expected_last, replace_after
            )
        return [not_before(found, message).record for message in ordered]

    @operation("messages")
    async def pop_message(self, conversation_id: str) -> Message | None:
        """Delete the newest message of a conversation, and its trace; no two calls return one.

        Sums of usage do not count the trace any more.

        Returns:
            The message, or None if there is none.
        """
        owner = require_id("conversation_id", conversation_id)

        def check(row: Row) -> Message:
            return self._messages.record(row, owner)

        row = await self.backend.pop(owner, check, checks_all=self.codec is not None)
        return None if row is None else self._messages.record(row, owner)

    @operation("messages")
    async def rewind_conversation(self, conversation_id: str, *, after: str | None) -> int:
        """Delete all messages after one of them, and their traces, in one step.

        Sums of usage do not count these traces any more.

        Args:
            conversation_id: a conversation; `last_updated_at` is not changed.
            after: the id of the last message that stays; None deletes all.

        Returns:
            How many messages were deleted.

        Raises:
            NotFoundError: `after` is no message of this conversation.
        """
        owner = require_id("conversation_id", conversation_id)
        last = None if after is None else require_id("after", after)
        return await self.backend.rewind(owner, last)

    @operation("messages")
    async def fork_conversation(
        self, conversation_id: str, new_conversation: Conversation, *, until: str | None = None
    ) -> dict[str, str]:
        """Copy a conversation's messages and their traces to a new conversation, in one step.

        Timestamps, flags and order stay the same; the copies have new ids, and the same ones when
        the call is repeated. Sums of usage leave the copied traces out.

        Args:
            conversation_id: the conversation to copy.
            new_conversation: the conversation to store.
            until: the id of the last message that is copied; None copies all.

        Returns:
            The ids of the new messages by those of the copied ones, oldest first.

        Raises:
            NotFoundError: the conversation is not stored, or `until` is no message of it.
            ConflictError: another conversation with the new one's id is stored.
        """
        owner = require_id("conversation_id", conversation_id)
        last = None if until is None else require_id("until", until)
        copy = snapshot(new_conversation, Conversation)
        fork = Fork(owner, last, copy, fork_salt(copy.record.id))
        try:
            if self.codec is None:
                return await self.backend.fork(fork)
            return await fork_decrypted(self.backend, self.codec, fork)
        except ConflictError:
            ids = await self._ids_of_copy(fork)
            if ids is None:
                raise
            return ids

    async def _ids_of_copy(self, fork: Fork) -> dict[str, str] | None:
        """Return what `fork` returned when it was done before; None if it was not."""
        page = MessagePage("conversation_id", fork.conversation_id, None, None)
        sources = list(map(row_id, await self.backend.list_messages(page)))
        if fork.until in sources:
            del sources[sources.index(fork.until) + 1 :]
        ids = {source: forked_id(fork.salt, source) for source in sources}
        copies = set(map(row_id, await self.backend.get_messages(list(ids.values()))))
        if copies:
            return {source: copy for source, copy in ids.items() if copy in copies}
        stored = await self.backend.get_conversation(fork.copy.record.id)
        is_copy = stored is not None and self._conversations.record(stored) == fork.copy.record
        return {} if is_copy and not ids else None

    # Traces

    @operation()
    async def store_turn_trace(self, trace: TurnTrace) -> None:
        """Store a turn's trace, in place of any other that its message has.

        Raises:
            IntegrityError: its message is not stored, its id belongs to another message, or it
                names another conversation than its message.
        """
        await self.backend.store(Turn(trace=self._encoded(snapshot(trace, TurnTrace))))

    @operation("traces")
    async def get_turn_trace_by_id(self, trace_id: str) -> TurnTrace | None:
        """Return the trace, or None."""
        row = await self.backend.get_trace("id", require_id("trace_id", trace_id))
        return None if row is None else self._traces.record(row)

    @operation("traces")
    async def get_turn_trace_by_message_id(self, message_id: str) -> TurnTrace | None:
        """Return the trace of a message, or None."""
        row = await self.backend.get_trace("message_id", require_id("message_id", message_id))
        return None if row is None else self._traces.record(row)

    @operation("traces")
    async def get_turn_traces_by_conversation_id(self, conversation_id: str) -> list[TurnTrace]:
        """Return a conversation's traces by `turn_number`, ascending."""
        owner = require_id("conversation_id", conversation_id)
        rows = await self.backend.list_conversation_traces(owner)
        return await self._decoded(self._traces, rows, owner)

    @operation("traces")
    async def get_turn_traces_by_agent_id(
        self, agent_id: str, limit: int = 100, offset: int = 0
    ) -> list[TurnTrace]:
        """Return an agent's traces, newest `started_at_ms` first, equal ones latest stored first.

        Args:
            agent_id: the agent.
            limit: the maximum number of traces.
            offset: how many of the newest traces to skip.
        """
        owner = require_id("agent_id", agent_id)
        count, skipped = require_count("limit", limit), require_count("offset", offset)
        if not count:
            return []
        rows = await self.backend.list_agent_traces(owner, count, skipped)
        return await self._decoded(self._traces, rows)

    @operation()
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
        given = None if conversation is None else snapshot(conversation, Conversation)
        snapshots = distinct(snapshot_all(messages, Message))
        of_turn = None if trace is None else snapshot(trace, TurnTrace)
        if given is not None or snapshots or of_turn is not None:
            turn = Turn(
                None if given is None else self._encoded(given),
                list(map(self._encoded, snapshots)),
                None if of_turn is None else self._encoded(of_turn),
            )
            await self.backend.store(turn)

    @operation("traces")
    async def find_turn_traces(
        self, where: TraceFilter, *, limit: int = 100, after: str | None = None
    ) -> list[TurnTrace]:
        """Return the traces that match a filter, newest `started_at_ms` first.

        Equal ones come latest stored first.

        Raises:
            NotFoundError: `after` is the id of no trace.
        """
        wanted = snapshot(where, TraceFilter).record
        return await self._find_traces(wanted, require_count("limit", limit), after)

    async def _find_traces(
        self, where: TraceFilter, limit: int, after: str | None, keep: KeepRows | None = None
    ) -> list[TurnTrace]:
        self._require_readable(where)
        page = TracePage(where, limit, after)
        return await self._page(self._traces, self.backend.find_traces, page, keep)

    @operation("summaries")
    async def summarize_usage(self, where: TraceFilter, *, by: UsageKey) -> list[UsageSummary]:
        """Sum up the traces that match a filter, one summary per group, most tokens first.

        Args:
            where: which traces to sum up.
            by: "agent", "user", "conversation", "intent", "model" or "day" (UTC).
        """
        wanted = snapshot(where, TraceFilter).record
        self._require_readable(wanted)
        return await self.backend.summarize(wanted, require_usage_key(by))

    # Search

    @operation("messages")
    async def search_messages(
        self,
        query: str,
        *,
        user_id: str | None = None,
        conversation_id: str | None = None,
        agent_id: str | None = None,
        roles: Iterable[MessageRole | str] | None = None,
        since: int | None = None,
        until: int | None = None,
        order: SearchOrder = "relevance",
        limit: int = 20,
        after: str | None = None,
    ) -> list[FoundMessage]:
        """Return the messages whose `original_content` has the words of a query.

        The store needs an index of words, which the option `search` of a new store makes, and the
        command `jazzmine index` in one that has messages.

        By relevance, a message needs one of the words; they are ranked by BM25, with the
        frequencies of words in what is searched. A word that half of 100 messages or more have
        finds nothing beside rarer ones. A query without any word (signs and emojis are none) finds
        nothing, and says so in the log. A search reads 2,000 messages at most: if more have one of
        the words, the newest that have the rarest ones. By time, a message needs all words.

        Args:
            query: words, "quoted phrases", `beginnings*`, and `-words` that must not be there.
            user_id: only messages of this user.
            conversation_id: only messages of this conversation.
            agent_id: only messages of conversations with this agent.
            roles: only messages of these authors; None is all.
            since: only messages with this `timestamp` or a later one; ms since the Unix epoch, UTC.
            until: only messages with an earlier `timestamp`.
            order: "relevance" for the best first, "newest" for pages by time.
            limit: how many at most.
            after: for "newest", the id of the last message of the page before.

        Raises:
            ConfigurationError: the store has no index of words, or not yet a complete one.
            NotFoundError: `after` is no message of what is searched.
            ValueError: `after` is given, and the order is "relevance".
        """
        text, size = require_text("query", query), require_count("limit", limit)
        by_time = require_search_order(order) == "newest"
        last = None if after is None else require_id("after", after)
        if last is not None and not by_time:
            raise ValueError('after needs order="newest": a ranking has no pages')
        scope = SearchScope(
            None if user_id is None else require_id("user_id", user_id),
            None if conversation_id is None else require_id("conversation_id", conversation_id),
            None if agent_id is None else require_id("agent_id", agent_id),
            require_roles(roles),
            None if since is None else require_time("since", since),
            None if until is None else require_time("until", until),
        )
        if (not size and last is None) or (roles is not None and not scope.roles):
            return []
        analyser = await require_search(self.backend)
        wanted = parse_query(text, analyser)
        if not wanted.clauses:
            logger.warning("a search without any word finds nothing; signs and emojis are no words")
            return []
        if by_time:
            best = await find_newest(self.backend, wanted, scope, size, last)
        else:
            best = await find_best(self.backend, wanted, scope, size)
        if not best:
            return []
        rows = await self.backend.get_messages(list(best))
        messages = await self._decoded(self._messages, rows)
        texts = [message.original_content for message in messages]
        spans = await find_spans(wanted, texts, analyser)
        return [
            FoundMessage(message, best[message.id], places)
            for message, places in zip(messages, spans, strict=True)
        ]

    # Erasure and retention

    @operation()
    async def erase_user(self, user_id: str) -> Erasure:
        """Delete all records of a user, in several transactions; repeat it until it finds none.

        Those are the user's conversations with everything in them, the user's messages in other
        conversations with their traces, and the traces that name the user. A call that failed
        has deleted a part; repeated, it deletes the rest.

        Args:
            user_id: whose records.

        Returns:
            How many records were deleted.
        """
        owner = require_id("user_id", user_id)
        return await delete_in_steps(self.backend, owner, self.require_open)

    @operation()
    async def move_user(self, from_user_id: str, to_user_id: str) -> int:
        """Make all records of one user another user's, in one step, as when a guest signs in.

        Those are conversations, messages and traces. Repeated, it moves what has come meanwhile.

        Args:
            from_user_id: whose records.
            to_user_id: whose they are afterwards.

        Returns:
            How many records were moved.
        """
        source, target = (
            require_id("from_user_id", from_user_id),
            require_id("to_user_id", to_user_id),
        )
        return 0 if source == target else await self.backend.move_user(source, target)

    @operation("conversations")
    async def prune_conversations(
        self,
        *,
        before: int,
        where: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        limit: int = 1000,
    ) -> int:
        """Delete old conversations with everything in them, oldest `last_updated_at` first.

        A long conversation is deleted in several transactions, its oldest messages first. If it is
        written to meanwhile, or the call fails, the rest of it stays; a later call deletes that.

        Args:
            before: ms since the Unix epoch, UTC; a conversation with a `last_updated_at`, or a
                message with a `timestamp`, of then or later stays.
            where: only those whose `metadata` has these keys with these values, as in
                `get_conversations`; one whose `metadata` is changed meanwhile stays.
            user_id: only this user's conversations.
            limit: how many at most.

        Returns:
            How many were deleted; after an error, those of the finished transactions stay deleted.
        """
        bound, wanted = require_time("before", before), require_count("limit", limit)
        condition = require_metadata("where", where)

        def matches(row: Row) -> bool:
            records = self._conversations.records([row])
            return bool(records) and contains(records[0].metadata, condition)

        def choose(rows: Sequence[Row]) -> Sequence[Row]:
            return [row for row in rows if matches(row)] if condition else rows

        user = None if user_id is None else require_id("user_id", user_id)
        return await prune_in_steps(self.backend, bound, wanted, choose, self.require_open, user)

    async def _edit(
        self,
        kind: RecordKind,
        decoder: RowDecoder[AnyRecord],
        record_type: type[AnyRecord],
        record_id: str,
        edited: Callable[[AnyRecord], AnyRecord],
    ) -> AnyRecord:
        """Store another version of a record in place of the one that it was made of.

        Raises:
            NotFoundError: the record is not stored.
        """
        versions: list[AnyRecord] = []

        def change(row: Row) -> Snapshot[AnyRecord]:
            version = snapshot(edited(decoder.record(row)), record_type)
            versions.append(version.record)
            return self._encoded(version)

        if not await self.backend.rewrite(kind, [record_id], change):
            raise NotFoundError(f"{record_type.__name__.lower()} {record_id!r} is not stored")
        return versions[-1]

    # How a page is read

    async def _page(
        self,
        decoder: RowDecoder[AnyRecord],
        hook: Work[Sequence[Row]],
        page: AnyPage,
        keep: KeepRows | None = None,
        matches: Callable[[AnyRecord], bool] | None = None,
    ) -> list[AnyRecord]:
        """Return a page of records: further ones take the place of those that are left out.

        Args:
            decoder: makes records of the rows.
            hook: reads a page.
            page: which one; its `limit` and `after` are checked here.
            keep: returns those of some rows that are returned; the others are not decoded.
            matches: whether a record is returned.
        """
        of = _conversation_of(page)

        async def decoded(rows: Sequence[Row]) -> list[AnyRecord]:
            kept = rows if keep is None else await keep(rows)
            records = await self._decoded(decoder, kept, of)
            return records if matches is None else list(filter(matches, records))

        size = None if page.limit is None else require_count("limit", page.limit)
        last = None if page.after is None else require_id("after", page.after)
        if size == 0 and last is None:
            return []
        rows = await hook(page._replace(limit=size, after=last))
        records, wanted = await decoded(rows), size
        while size is not None and len(records) < size and len(rows) == wanted:
            # What is left out may go on for long: larger pages, which are decoded in a thread.
            if not are_many(rows):
                wanted *= 2
            rows = await hook(page._replace(limit=wanted, after=row_id(rows[-1])))
            records += await decoded(rows)
        return records[:size]

    async def _decoded(
        self,
        decoder: RowDecoder[AnyRecord],
        rows: Sequence[Row],
        conversation_id: str | None = None,
    ) -> list[AnyRecord]:
        if are_many(rows):
            # Parsing them here would keep other calls waiting.
            records: list[AnyRecord] = await run_blocking(
                decoder.records_in_parts, rows, conversation_id
            )
            return records
        return decoder.records(rows, conversation_id)

    # Encryption

    def _decoder_of(self, kind: RecordKind) -> RowDecoder[Any]:
        """Return what makes records of the rows of a kind."""
        if kind == "conversations":
            return self._conversations
        return self._messages if kind == "messages" else self._traces

    def _encoded(self, given: Snapshot[AnyRecord]) -> Snapshot[AnyRecord]:
        """Return a record as it is stored."""
        return given if self.codec is None else self.codec.encrypted(given)

    def _require_readable(self, where: TraceFilter) -> None:
        if self.codec is not None:
            require_readable(where)


def _conversation_of(page: object) -> str | None:
    """Return the conversation whose messages a page has, if it is one."""
    if isinstance(page, NewestPage):
        return page.conversation_id
    if isinstance(page, MessagePage) and page.by == "conversation_id":
        return page.owner
    return None
