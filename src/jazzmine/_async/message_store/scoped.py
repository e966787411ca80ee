"""One user's view of a message store: it asks the store about that user's conversations alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import wraps
from inspect import unwrap
from time import time_ns
from typing import Any, TypeVar, cast

from jazzmine._async.message_store.store import MessageStore
from jazzmine._async.operation import composed, operation, step
from jazzmine._async.view import ConversationView, id_taken
from jazzmine.errors import ConflictError, IntegrityError, NotFoundError
from jazzmine.records.arguments import require_count, require_id, require_ids, require_roles
from jazzmine.records.base import RecordKind, snapshot
from jazzmine.records.conversation_log import DeletedCounts, unknown_after, unknown_conversation
from jazzmine.records.hook_arguments import Append, ConversationPage, MessagePage, Turn
from jazzmine.records.log import Erasure
from jazzmine.records.messages import Conversation, FoundMessage, Message, MessageRole, SearchOrder
from jazzmine.records.rows import Row, id_in, row_id
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

AnyMethod = TypeVar("AnyMethod", bound=Callable[..., Any])

_KINDS: Mapping[str, RecordKind] = {"message_id": "messages", "trace_id": "traces"}


def about(method: AnyMethod, *default: Any) -> AnyMethod:
    """Return the method of a view for a method whose first argument is the id of a record.

    The default is the result for a record that the user does not see, and has nothing that a page
    could begin after; without it, the method raises `NotFoundError`.
    """
    argument = unwrap(method).__code__.co_varnames[1]
    kind = _KINDS.get(argument)

    @composed
    @wraps(method)
    async def call(self: ScopedMessageStore, *args: Any, **options: Any) -> Any:
        record_id = require_id(argument, args[0] if args else options.get(argument))
        if await (self._sees(kind, record_id) if kind else self._has(record_id)):
            return await getattr(self._store, method.__name__)(*args, **options)
        if options.get("after") is not None:
            raise NotFoundError(f"after={options['after']!r} is no message of this conversation")
        if not default:
            raise NotFoundError(f"{record_id!r} is not stored")
        return copy(default[0])

    return cast("AnyMethod", call)


class ScopedMessageStore(ConversationView[MessageStore], MessageStore):
    """A message store that sees and changes what is in one user's conversations.

    The store is asked whose a conversation is before the first call about it, and the view
    remembers the answer: use one view for each request. What is in another user's conversation has
    the same results as what is not stored. Lists, sums and searches over several conversations are
    of what names the user, in the user's conversations; those within one conversation are of all
    that is in it. A sum over several conversations includes what was recorded for the user in
    other users' conversations.

    Args:
        store: the store, which a view neither opens nor closes.
        user_id: the user.
    """

    # Whose a record is. Rows are looked at as they are stored: what is another user's is not
    # decrypted.

    async def _owner(self, conversation_id: str) -> str | None:
        """Return whose a conversation is; None if it is not stored."""
        row = await self._store.backend.get_conversation(conversation_id)
        return None if row is None else id_in(row, "user_id")

    async def _require_free(self, conversation: Conversation) -> None:
        """Raise an error if a conversation, or the one with its id, is another user's."""
        self._own(conversation.user_id)
        if conversation.id not in self._known:
            owner = await self._owner(conversation.id)
            if owner not in (None, self._user_id):
                raise id_taken("conversation", conversation.id)

    async def _sees(self, kind: RecordKind, record_id: str) -> bool:
        """Return whether a message or a trace is in a conversation of the user."""
        backend = self._store.backend
        if kind == "messages":
            row = await backend.get_message(record_id)
        else:
            row = await backend.get_trace("id", record_id)
        return row is not None and bool(await self._seen([row]))

    async def _seen(self, rows: Sequence[Row]) -> list[Row]:
        """Return those of some messages or traces that are in the user's conversations."""
        owners = [id_in(row, "conversation_id") for row in rows]
        own = {owner: await self._has(owner) for owner in dict.fromkeys(owners) if owner}
        return [row for row, owner in zip(rows, owners, strict=True) if own.get(owner)]

    async def _require_after(self, kind: RecordKind, after: str | None) -> None:
        """Raise `NotFoundError` unless a page begins after a record that the user sees."""
        if after is not None and not await self._sees(kind, require_id("after", after)):
            raise unknown_after(after)

    async def _require_within(
        self, messages: Sequence[Message], traces: Sequence[TurnTrace], new: Collection[str]
    ) -> None:
        """Raise `IntegrityError` unless records are for the user's or new conversations."""
        owners = {message.conversation_id for message in messages}
        for owner in sorted(owners.union(trace.conversation_id for trace in traces)):
            if owner not in new and not await self._has(owner):
                raise unknown_conversation(owner)
        for trace in traces:
            is_new = any(message.id == trace.message_id for message in messages)
            if not is_new and not await self._sees("messages", trace.message_id):
                raise IntegrityError(
                    f"message {trace.message_id!r} is not stored; store the message first"
                )

    # Methods about one record.

    get_conversation_by_id = about(MessageStore.get_conversation_by_id, None)
    edit_conversation = about(MessageStore.edit_conversation)
    get_messages_by_conversation_id = about(MessageStore.get_messages_by_conversation_id, [])
    get_immediate_context = about(MessageStore.get_immediate_context, [])
    get_context_window = about(MessageStore.get_context_window, [])
    pop_message = about(MessageStore.pop_message, None)
    rewind_conversation = about(MessageStore.rewind_conversation, 0)
    get_turn_traces_by_conversation_id = about(MessageStore.get_turn_traces_by_conversation_id, [])
    get_message_by_id = about(MessageStore.get_message_by_id, None)
    edit_message = about(MessageStore.edit_message)
    delete_message = about(MessageStore.delete_message, False)
    flag_message = about(MessageStore.flag_message, False)
    get_turn_trace_by_message_id = about(MessageStore.get_turn_trace_by_message_id, None)
    get_turn_trace_by_id = about(MessageStore.get_turn_trace_by_id, None)

    # Conversations

    async def _put(self, turn: Turn) -> None:
        """Store some records, if they are for conversations of the user."""
        created = [conversation.record for conversation in turn.conversations]
        for conversation in created:
            await self._require_free(conversation)
        ids = [conversation.id for conversation in created]
        messages = [message.record for message in turn.messages]
        await self._require_within(messages, [trace.record for trace in turn.traces], ids)
        await self._store._put(turn)
        for conversation_id in ids:
            self._remember(conversation_id)

    @composed
    async def get_or_create_conversation(self, conversation: Conversation) -> Conversation:
        """Return the user's conversation with the same id; store this one if there is none."""
        given = snapshot(conversation, Conversation).record
        await self._require_free(given)
        stored = await self._store.get_or_create_conversation(given)
        if stored.user_id != self._user_id:  # another user was quicker
            raise id_taken("conversation", given.id)
        self._remember(given.id)
        return stored

    @composed
    async def get_conversations(self, **page: Any) -> list[Conversation]:
        """Return the user's conversations."""
        return await self._store.get_conversations_by_user_id(self._user_id, **page)

    @composed
    async def get_conversations_by_user_id(self, user_id: str, **page: Any) -> list[Conversation]:
        """Return the user's conversations."""
        return await self._store.get_conversations_by_user_id(
            self._own(require_id("user_id", user_id)), **page
        )

    @composed
    async def get_conversations_by_agent_id(
        self, agent_id: str, *, user_id: str | None = None, after: str | None = None, **page: Any
    ) -> list[Conversation]:
        """Return the user's conversations with an agent."""
        owner = self._own(user_id)
        if after is not None and not await self._has(require_id("after", after)):
            raise unknown_after(after)
        return await self._store.get_conversations_by_agent_id(
            agent_id, user_id=owner, after=after, **page
        )

    @composed
    async def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation of the user."""
        if not await self._has(conversation_id):
            return False
        self._known.pop(conversation_id, None)
        return await self._store.delete_conversation(conversation_id)

    # Messages

    @composed
    async def get_messages_by_ids(self, message_ids: Iterable[str]) -> list[Message]:
        """Return those of the messages that are in conversations of the user."""
        wanted = require_ids("message_ids", message_ids)
        if not wanted:
            return []
        rows = await self._seen(await self._store.backend.get_messages(wanted))
        return await self._store._decoded(self._store._messages, rows)

    @operation("messages")
    async def get_messages_by_user_id(
        self, user_id: str, *, limit: int | None = None, after: str | None = None
    ) -> list[Message]:
        """Return what the user has written in the user's conversations."""
        owner = self._own(require_id("user_id", user_id))
        await self._require_after("messages", after)
        store, page = self._store, MessagePage("user_id", owner, limit, after)
        read = store.backend.list_messages
        return await store._page(store._messages, read, page, keep=self._seen)

    def iter_messages(
        self, conversation_id: str, *, batch_size: int = 500
    ) -> AsyncIterator[Message]:
        """Iterate over the messages of a conversation of the user."""
        self.require_open()
        messages = self._store.iter_messages(conversation_id, batch_size=batch_size)
        return self._iterate(conversation_id, messages)

    async def _iterate(
        self, conversation_id: str, messages: AsyncIterator[Message]
    ) -> AsyncIterator[Message]:
        if await self._has(conversation_id):
            async for message in messages:
                yield message
                self.require_open()

    @composed
    async def count_messages(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        """Return how many messages conversations have; 0 for one that is not the user's."""
        wanted = require_ids("conversation_ids", conversation_ids)
        own = [one for one in wanted if await self._has(one)]
        return {**dict.fromkeys(wanted, 0), **await self._store.count_messages(own)}

    # A conversation as a log

    async def _append(self, given: Append) -> list[Message]:
        if not await self._has(given.conversation_id):
            raise unknown_conversation(given.conversation_id)
        return await self._store._append(given)

    @composed
    async def fork_conversation(
        self, conversation_id: str, new_conversation: Conversation, *, until: str | None = None
    ) -> dict[str, str]:
        """Copy a conversation of the user to a new one of the same user."""
        copy = snapshot(new_conversation, Conversation).record
        self._own(copy.user_id)
        if not await self._has(conversation_id):
            raise NotFoundError(f"conversation {conversation_id!r} is not stored")
        try:
            ids = await self._store.fork_conversation(conversation_id, copy, until=until)
        except ConflictError:
            if await self._has(copy.id):
                raise
            raise id_taken("conversation", copy.id) from None
        self._remember(copy.id)
        return ids

    # Traces

    @operation("traces")
    async def get_turn_traces_by_agent_id(
        self, agent_id: str, limit: int = 100, offset: int = 0
    ) -> list[TurnTrace]:
        """Return the traces of an agent that name the user."""
        owner = require_id("agent_id", agent_id)
        count, skipped = require_count("limit", limit), require_count("offset", offset)
        where = TraceFilter(agent_id=owner, user_id=self._user_id)
        return (await self._found_traces(where, skipped + count, None))[skipped:]

    @operation("traces")
    async def find_turn_traces(
        self, where: TraceFilter, *, limit: int = 100, after: str | None = None
    ) -> list[TurnTrace]:
        """Return the traces that match a filter, and are in the user's conversations."""
        wanted = await self._narrowed(where)
        size = require_count("limit", limit)
        await self._require_after("traces", after)
        return [] if wanted is None else await self._found_traces(wanted, size, after)

    async def _found_traces(
        self, where: TraceFilter, limit: int, after: str | None
    ) -> list[TurnTrace]:
        return await self._store._find_traces(where, limit, after, keep=self._seen)

    async def _narrowed(self, where: TraceFilter) -> TraceFilter | None:
        """Return a filter for what the user sees; None if that is nothing."""
        wanted = snapshot(where, TraceFilter).record
        self._own(wanted.user_id)
        if wanted.conversation_id is None:
            return wanted.model_copy(update={"user_id": self._user_id})
        return wanted if await self._has(wanted.conversation_id) else None

    @composed
    async def summarize_usage(self, where: TraceFilter, *, by: UsageKey) -> list[UsageSummary]:
        """Sum up the traces that name the user, or those of a conversation of the user."""
        wanted = await self._narrowed(where)
        return [] if wanted is None else await self._store.summarize_usage(wanted, by=by)

    # Search

    @composed
    async def search_messages(
        self,
        query: str,
        *,
        user_id: str | None = None,
        conversation_id: str | None = None,
        roles: Iterable[MessageRole | str] | None = None,
        order: SearchOrder = "relevance",
        limit: int = 20,
        after: str | None = None,
        **wanted: Any,
    ) -> list[FoundMessage]:
        """Return the messages with the words of a query.

        Those are the user's, in the user's conversations; or anybody's in one of them.
        """
        author: str | None = self._own(user_id)
        if conversation_id is not None:
            if not await self._has(conversation_id):
                return []
            author = user_id
        if order == "newest":
            await self._require_after("messages", after)
        chosen = roles and require_roles(roles)
        size = require_count("limit", limit)
        while True:
            found = await self._store.search_messages(
                query,
                user_id=author,
                conversation_id=conversation_id,
                roles=chosen,
                order=order,
                limit=size,
                after=after,
                **wanted,
            )
            seen = [one for one in found if await self._has(one.message.conversation_id)]
            if len(seen) >= limit or len(found) < size:
                return seen[:limit]
            size *= 2  # others take the place of what is in other users' conversations

    # Erasure and retention

    @operation()
    async def erase_user(self, user_id: str) -> Erasure:
        """Delete the conversations that the user has now, with everything in them.

        The user's messages and traces in other users' conversations stay.
        """
        owner, backend = self._own(require_id("user_id", user_id)), self._store.backend
        self._known.clear()
        total = DeletedCounts()
        page = ConversationPage("user_id", owner, {}, None, None)
        for conversation_id in map(row_id, await backend.list_conversations(page)):
            async with step():
                messages = await backend.count_messages([conversation_id])
                traces = await backend.list_conversation_traces(conversation_id)
                if await backend.delete_conversation(conversation_id):
                    counts = DeletedCounts(1, messages.get(conversation_id, 0), len(traces))
                    total = total.plus(counts)
            self.require_open()
        await backend.purge()
        return Erasure(**total._asdict(), erased_at=time_ns() // 1_000_000)

    @composed
    async def prune_conversations(self, *, user_id: str | None = None, **wanted: Any) -> int:
        """Delete conversations of the user that nobody has used for long."""
        self._known.clear()
        return await self._store.prune_conversations(user_id=self._own(user_id), **wanted)
