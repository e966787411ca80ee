"""One user's view of a message store: it asks the store about that user's conversations alone."""

from __future__ import annotations

from collections.abc import Iterator, Iterable, Sequence
from typing import Any

from jazzmine._sync.message_store.deletion import erase_conversations
from jazzmine._sync.message_store.store import MessageStore
from jazzmine._sync.operation import composed, operation
from jazzmine.errors import ConflictError, NotFoundError
from jazzmine.records.arguments import require_count, require_id
from jazzmine.records.base import RecordKind, snapshot, snapshot_all
from jazzmine.records.conversation_log import (
    require_one_conversation,
    unknown_conversation,
)
from jazzmine.records.hook_arguments import MessagePage
from jazzmine.records.log import ANY, NOTHING, AnyMessage, Erasure, Nothing
from jazzmine.records.messages import (
    Conversation,
    FoundMessage,
    Message,
    MessageRole,
    SearchOrder,
)
from jazzmine.records.owners import (
    id_taken,
    require_own,
    row_conversation,
    row_user,
    unknown_message,
)
from jazzmine.records.rows import Row
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

__all__ = ["ScopedMessageStore"]

# How many of the user's conversations a view remembers.
_MOST_REMEMBERED = 10_000


class ScopedMessageStore(MessageStore):
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

    def __init__(self, store: MessageStore, user_id: str) -> None:
        self._store = store
        self._user_id = user_id
        self._affinity = store._affinity
        self._closed = False
        self._known: dict[str, None] = {}

    @property
    def system_name(self) -> str:
        """The value of the attribute `db.system.name` of its spans."""
        return self._store.system_name

    def require_open(self) -> None:
        """Raise unless both the view and its store are open."""
        super().require_open()
        self._store.require_open()

    def _close(self) -> None:
        pass  # the store stays open

    def scoped(self, *, user_id: str) -> MessageStore:
        """Return another view of the same user."""
        return self._store.scoped(user_id=self._own(user_id))

    @composed
    def ping(self) -> None:
        """Make one cheap round trip to the server."""
        self._store.ping()

    # Whose a record is. Rows are looked at as they are stored: what is another user's is not
    # decrypted.

    def _own(self, user_id: str | None) -> str:
        """Return the id of the user; raise `ScopeError` if another user's is given."""
        if user_id is not None:
            require_own(self._user_id, require_id("user_id", user_id))
        return self._user_id

    def _owner(self, conversation_id: str) -> str | None:
        """Return whose a conversation is; None if it is not stored."""
        row = self._store.backend.get_conversation(conversation_id)
        return None if row is None else row_user(row)

    def _has(self, conversation_id: str) -> bool:
        """Return whether a conversation is the user's."""
        if require_id("conversation_id", conversation_id) in self._known:
            return True
        if self._owner(conversation_id) != self._user_id:
            return False
        self._remember(conversation_id)
        return True

    def _remember(self, conversation_id: str) -> None:
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[conversation_id] = None

    def _require(self, conversation_id: str) -> None:
        """Raise `IntegrityError` unless a conversation is the user's."""
        if not self._has(conversation_id):
            raise unknown_conversation(conversation_id)

    def _require_free(self, conversation: Conversation) -> None:
        """Raise an error if a conversation, or the one with its id, is another user's."""
        require_own(self._user_id, conversation.user_id)
        if conversation.id not in self._known:
            owner = self._owner(conversation.id)
            if owner not in (None, self._user_id):
                raise id_taken("conversation", conversation.id)

    def _sees(self, kind: RecordKind, record_id: str) -> bool:
        """Return whether a message or a trace is in a conversation of the user."""
        backend = self._store.backend
        if kind == "messages":
            row = backend.get_message(record_id)
        else:
            row = backend.get_trace("id", record_id)
        return row is not None and bool(self._seen([row]))

    def _seen(self, rows: Sequence[Row]) -> list[Row]:
        """Return those of some messages or traces that are in the user's conversations."""
        owners = [row_conversation(row) for row in rows]
        own = {owner: self._has(owner) for owner in dict.fromkeys(owners) if owner}
        return [row for row, owner in zip(rows, owners, strict=True) if own.get(owner)]

    def _require_after(self, kind: RecordKind, after: str | None) -> None:
        """Raise `NotFoundError` unless a page begins after a record that the user sees."""
        if after is not None and not self._sees(kind, require_id("after", after)):
            raise NotFoundError(f"after={after!r} is no record of this listing")

    def _require_within(self, messages: Sequence[Message], trace: TurnTrace | None) -> None:
        """Raise `IntegrityError` unless what is stored is for the user's conversations."""
        ids = {message.id for message in messages}
        owners = {message.conversation_id for message in messages}
        if trace is not None:
            owners.add(trace.conversation_id)
        for owner in sorted(owners):
            self._require(owner)
        if trace is not None and trace.message_id not in ids:
            self._require_message(trace.message_id)

    def _require_message(self, message_id: str) -> None:
        """Raise `IntegrityError` unless a message is in a conversation of the user."""
        if not self._sees("messages", message_id):
            raise unknown_message(message_id)

    # Conversations

    @composed
    def store_conversation(self, conversation: Conversation) -> None:
        """Store a conversation of the user."""
        given = snapshot(conversation, Conversation).record
        self._require_free(given)
        self._store.store_conversation(given)
        self._remember(given.id)

    @composed
    def update_conversation(self, conversation: Conversation) -> None:
        """Store a conversation of the user."""
        given = snapshot(conversation, Conversation).record
        self._require_free(given)
        self._store.update_conversation(given)
        self._remember(given.id)

    @composed
    def get_or_create_conversation(self, conversation: Conversation) -> Conversation:
        """Return the user's conversation with the same id; store this one if there is none."""
        given = snapshot(conversation, Conversation).record
        self._require_free(given)
        stored = self._store.get_or_create_conversation(given)
        if stored.user_id != self._user_id:  # another user was quicker
            raise id_taken("conversation", given.id)
        self._remember(given.id)
        return stored

    @composed
    def edit_conversation(self, conversation_id: str, **changes: Any) -> Conversation:
        """Change the title and some of the metadata of a conversation of the user."""
        if not self._has(conversation_id):
            raise NotFoundError(f"conversation {conversation_id!r} is not stored")
        return self._store.edit_conversation(conversation_id, **changes)

    @composed
    def get_conversation_by_id(self, conversation_id: str) -> Conversation | None:
        """Return the conversation if it is the user's, or None."""
        if not self._has(conversation_id):
            return None
        return self._store.get_conversation_by_id(conversation_id)

    @composed
    def get_conversations(self, **page: Any) -> list[Conversation]:
        """Return the user's conversations."""
        return self._store.get_conversations_by_user_id(self._user_id, **page)

    @composed
    def get_conversations_by_user_id(self, user_id: str, **page: Any) -> list[Conversation]:
        """Return the user's conversations."""
        return self._store.get_conversations_by_user_id(
            self._own(require_id("user_id", user_id)), **page
        )

    @composed
    def get_conversations_by_agent_id(
        self, agent_id: str, *, user_id: str | None = None, after: str | None = None, **page: Any
    ) -> list[Conversation]:
        """Return the user's conversations with an agent."""
        owner = self._own(user_id)
        if after is not None and not self._has(require_id("after", after)):
            raise NotFoundError(f"after={after!r} is no record of this listing")
        return self._store.get_conversations_by_agent_id(
            agent_id, user_id=owner, after=after, **page
        )

    @composed
    def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation of the user."""
        if not self._has(conversation_id):
            return False
        self._known.pop(conversation_id, None)
        return self._store.delete_conversation(conversation_id)

    # Messages

    @composed
    def store_message(self, message: Message) -> None:
        """Store a message in a conversation of the user."""
        given = snapshot(message, Message).record
        self._require(given.conversation_id)
        self._store.store_message(given)

    @composed
    def update_message(self, message: Message) -> None:
        """Store a message in a conversation of the user."""
        given = snapshot(message, Message).record
        self._require(given.conversation_id)
        self._store.update_message(given)

    @composed
    def store_messages(self, messages: Iterable[Message]) -> None:
        """Store messages in conversations of the user."""
        given = [message.record for message in snapshot_all(messages, Message)]
        self._require_within(given, None)
        self._store.store_messages(given)

    @composed
    def get_message_by_id(self, message_id: str) -> Message | None:
        """Return the message if it is in a conversation of the user, or None."""
        if not self._sees("messages", require_id("message_id", message_id)):
            return None
        return self._store.get_message_by_id(message_id)

    @composed
    def get_messages_by_ids(self, message_ids: Iterable[str]) -> list[Message]:
        """Return those of the messages that are in conversations of the user."""
        if isinstance(message_ids, str):
            raise TypeError("message_ids must be several ids, not one str")
        wanted = [require_id("message_ids", message_id) for message_id in message_ids]
        if not wanted:
            return []
        rows = self._seen(self._store.backend.get_messages(wanted))
        return self._store._decoded(self._store._messages, rows)

    @composed
    def get_messages_by_conversation_id(
        self, conversation_id: str, *, after: str | None = None, **page: Any
    ) -> list[Message]:
        """Return the messages of a conversation of the user."""
        if self._has(conversation_id):
            return self._store.get_messages_by_conversation_id(
                conversation_id, after=after, **page
            )
        if after is not None:
            raise NotFoundError(f"after={after!r} is no record of this listing")
        return []

    @operation("messages")
    def get_messages_by_user_id(
        self, user_id: str, *, limit: int | None = None, after: str | None = None
    ) -> list[Message]:
        """Return what the user has written in the user's conversations."""
        owner = self._own(require_id("user_id", user_id))
        self._require_after("messages", after)
        store, page = self._store, MessagePage("user_id", owner, limit, after)
        read = store.backend.list_messages
        return store._page(store._messages, read, page, keep=self._seen)

    def iter_messages(
        self, conversation_id: str, *, batch_size: int = 500
    ) -> Iterator[Message]:
        """Iterate over the messages of a conversation of the user."""
        self.require_open()
        messages = self._store.iter_messages(conversation_id, batch_size=batch_size)
        return self._iterate(conversation_id, messages)

    def _iterate(
        self, conversation_id: str, messages: Iterator[Message]
    ) -> Iterator[Message]:
        if self._has(conversation_id):
            for message in messages:
                yield message
                self.require_open()

    @composed
    def count_messages(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        """Return how many messages conversations have; 0 for one that is not the user's."""
        wanted = list(conversation_ids)
        own = [one for one in wanted if self._has(one)]
        return {**dict.fromkeys(wanted, 0), **self._store.count_messages(own)}

    @composed
    def get_immediate_context(self, conversation_id: str, n: int) -> list[Message]:
        """Return the newest messages of a conversation of the user that are not flagged."""
        if not self._has(conversation_id):
            return []
        return self._store.get_immediate_context(conversation_id, n)

    @composed
    def get_context_window(
        self, conversation_id: str, *, after: str | None = None, **budget: Any
    ) -> list[Message]:
        """Return the newest messages of a conversation of the user that fit into a window."""
        if not self._has(conversation_id):
            if after is not None:
                raise NotFoundError(f"after={after!r} is no message of this conversation")
            return []
        if after is not None:
            budget["after"] = after
        return self._store.get_context_window(conversation_id, **budget)

    @composed
    def edit_message(self, message_id: str, **fields: Any) -> Message:
        """Change some fields of a message in a conversation of the user."""
        if not self._sees("messages", require_id("message_id", message_id)):
            raise NotFoundError(f"message {message_id!r} is not stored")
        return self._store.edit_message(message_id, **fields)

    @composed
    def delete_message(self, message_id: str) -> bool:
        """Delete a message in a conversation of the user."""
        if not self._sees("messages", require_id("message_id", message_id)):
            return False
        return self._store.delete_message(message_id)

    @composed
    def flag_message(self, message_id: str, flagged: bool = True) -> bool:
        """Set or clear the flag of a message in a conversation of the user."""
        if not self._sees("messages", require_id("message_id", message_id)):
            return False
        return self._store.flag_message(message_id, flagged)

    # A conversation as a log

    @composed
    def append_messages(
        self,
        conversation_id: str,
        messages: Iterable[Message],
        *,
        expected_last: str | AnyMessage | None = ANY,
        trace: TurnTrace | None = None,
        replace_after: str | Nothing | None = NOTHING,
    ) -> list[Message]:
        """Store new messages after all others of a conversation of the user."""
        snapshots = snapshot_all(messages, Message)
        of_turn = None if trace is None else snapshot(trace, TurnTrace)
        require_one_conversation(require_id("conversation_id", conversation_id), snapshots, of_turn)
        if not snapshots:
            return []
        self._require(conversation_id)
        return self._store.append_messages(
            conversation_id,
            [message.record for message in snapshots],
            expected_last=expected_last,
            trace=None if of_turn is None else of_turn.record,
            replace_after=replace_after,
        )

    @composed
    def pop_message(self, conversation_id: str) -> Message | None:
        """Delete the newest message of a conversation of the user, and return it."""
        if not self._has(conversation_id):
            return None
        return self._store.pop_message(conversation_id)

    @composed
    def rewind_conversation(self, conversation_id: str, *, after: str | None) -> int:
        """Delete the messages of a conversation of the user after one of them."""
        if self._has(conversation_id):
            return self._store.rewind_conversation(conversation_id, after=after)
        if after is not None:
            raise NotFoundError(f"message {after!r} is no message of this conversation")
        return 0

    @composed
    def fork_conversation(
        self, conversation_id: str, new_conversation: Conversation, *, until: str | None = None
    ) -> dict[str, str]:
        """Copy a conversation of the user to a new one of the same user."""
        copy = snapshot(new_conversation, Conversation).record
        require_own(self._user_id, copy.user_id)
        if not self._has(conversation_id):
            raise NotFoundError(f"conversation {conversation_id!r} is not stored")
        try:
            ids = self._store.fork_conversation(conversation_id, copy, until=until)
        except ConflictError:
            if self._has(copy.id):
                raise
            raise id_taken("conversation", copy.id) from None
        self._remember(copy.id)
        return ids

    # Traces

    @composed
    def store_turn_trace(self, trace: TurnTrace) -> None:
        """Store the trace of a message in a conversation of the user."""
        given = snapshot(trace, TurnTrace).record
        self._require_within([], given)
        self._store.store_turn_trace(given)

    @composed
    def store_turn(
        self,
        *,
        conversation: Conversation | None = None,
        messages: Iterable[Message] = (),
        trace: TurnTrace | None = None,
    ) -> None:
        """Store the records of a turn in conversations of the user."""
        given = None if conversation is None else snapshot(conversation, Conversation).record
        of_turn = None if trace is None else snapshot(trace, TurnTrace).record
        records = [message.record for message in snapshot_all(messages, Message)]
        if given is not None:
            self._require_free(given)
        others = [one for one in records if given is None or one.conversation_id != given.id]
        ids = {record.id for record in records}
        if of_turn is not None and given is not None and of_turn.conversation_id == given.id:
            self._require_within(others, None)
            if of_turn.message_id not in ids:
                self._require_message(of_turn.message_id)
        else:
            self._require_within(others, of_turn)
        self._store.store_turn(conversation=given, messages=records, trace=of_turn)
        if given is not None:
            self._remember(given.id)

    @composed
    def get_turn_trace_by_id(self, trace_id: str) -> TurnTrace | None:
        """Return the trace if it is in a conversation of the user, or None."""
        if not self._sees("traces", require_id("trace_id", trace_id)):
            return None
        return self._store.get_turn_trace_by_id(trace_id)

    @composed
    def get_turn_trace_by_message_id(self, message_id: str) -> TurnTrace | None:
        """Return the trace of a message in a conversation of the user, or None."""
        if not self._sees("messages", require_id("message_id", message_id)):
            return None
        return self._store.get_turn_trace_by_message_id(message_id)

    @composed
    def get_turn_traces_by_conversation_id(self, conversation_id: str) -> list[TurnTrace]:
        """Return the traces of a conversation of the user."""
        if not self._has(conversation_id):
            return []
        return self._store.get_turn_traces_by_conversation_id(conversation_id)

    @operation("traces")
    def get_turn_traces_by_agent_id(
        self, agent_id: str, limit: int = 100, offset: int = 0
    ) -> list[TurnTrace]:
        """Return the traces of an agent that name the user."""
        owner = require_id("agent_id", agent_id)
        count, skipped = require_count("limit", limit), require_count("offset", offset)
        if not count:
            return []
        where = TraceFilter(agent_id=owner, user_id=self._user_id)
        return (self._found_traces(where, skipped + count, None))[skipped:]

    @operation("traces")
    def find_turn_traces(
        self, where: TraceFilter, *, limit: int = 100, after: str | None = None
    ) -> list[TurnTrace]:
        """Return the traces that match a filter, and are in the user's conversations."""
        wanted = self._narrowed(where)
        size = require_count("limit", limit)
        self._require_after("traces", after)
        return [] if wanted is None else self._found_traces(wanted, size, after)

    def _found_traces(
        self, where: TraceFilter, limit: int, after: str | None
    ) -> list[TurnTrace]:
        return self._store._find_traces(where, limit, after, keep=self._seen)

    def _narrowed(self, where: TraceFilter) -> TraceFilter | None:
        """Return a filter for what the user sees; None if that is nothing."""
        wanted = snapshot(where, TraceFilter).record
        require_own(self._user_id, wanted.user_id)
        if wanted.conversation_id is None:
            return wanted.model_copy(update={"user_id": self._user_id})
        return wanted if self._has(wanted.conversation_id) else None

    @composed
    def summarize_usage(self, where: TraceFilter, *, by: UsageKey) -> list[UsageSummary]:
        """Sum up the traces that name the user, or those of a conversation of the user."""
        wanted = self._narrowed(where)
        return [] if wanted is None else self._store.summarize_usage(wanted, by=by)

    # Search

    @composed
    def search_messages(
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
        """Return the messages with the words of a query.

        Those are the user's, in the user's conversations; or anybody's in one of them.
        """
        author: str | None = self._own(user_id)
        if conversation_id is not None:
            if not self._has(conversation_id):
                return []
            author = user_id
        if order == "newest":
            self._require_after("messages", after)
        chosen = None if roles is None else list(roles)
        size = require_count("limit", limit)
        while True:
            found = self._store.search_messages(
                query,
                user_id=author,
                conversation_id=conversation_id,
                agent_id=agent_id,
                roles=chosen,
                since=since,
                until=until,
                order=order,
                limit=size,
                after=after,
            )
            seen = [one for one in found if self._has(one.message.conversation_id)]
            if len(seen) >= limit or len(found) < size:
                return seen[:limit]
            size *= 2  # others take the place of what is in other users' conversations

    # Erasure and retention

    @operation()
    def erase_user(self, user_id: str) -> Erasure:
        """Delete the user's conversations with everything in them."""
        owner = self._own(require_id("user_id", user_id))
        self._known.clear()
        return erase_conversations(self._store.backend, owner, self.require_open)

    @composed
    def prune_conversations(self, *, user_id: str | None = None, **bounds: Any) -> int:
        """Delete old conversations of the user."""
        return self._store.prune_conversations(user_id=self._own(user_id), **bounds)

    @composed
    def move_user(self, from_user_id: str, to_user_id: str) -> int:
        """Raise `ScopeError` unless both are the user."""
        return self._store.move_user(
            self._own(require_id("from_user_id", from_user_id)),
            self._own(require_id("to_user_id", to_user_id)),
        )
