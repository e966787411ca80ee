"""One user's view of a message store: a back end before another one, which is limited to the user.

That one finds and changes nothing else, and does not tell what is another user's from what is not
stored. Here its refusals become the answers that a store gives where nothing is stored, and what
names another user is refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from jazzmine._async.message_store.backend import (
    Batch,
    MessageBackend,
    TraceKey,
)
from jazzmine.errors import ConflictError, IntegrityError, NotFoundError
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.conversation_log import DeletedCounts, Refusal
from jazzmine.records.hook_arguments import (
    Append,
    ConversationPage,
    Fork,
    MessagePage,
    NewestPage,
    TracePage,
    Turn,
)
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.rows import Row
from jazzmine.records.seen import NotSeenError, require_own, row_user, taken
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary
from jazzmine.search.index import SearchState
from jazzmine.search.query import Clause, FoundPage, SearchScope
from jazzmine.search.ranking import Counts

__all__ = ["ScopedMessages"]


class ScopedMessages(MessageBackend):
    """The hooks of a message store that is scoped to a user.

    Args:
        backend: where the records are.
        user_id: whose conversations are seen, with all that is in them.
    """

    def __init__(self, backend: MessageBackend, user_id: str) -> None:
        self._backend = backend.limited_to(user_id)
        self._user_id = user_id
        self.system_name = backend.system_name

    def limited_to(self, user_id: str) -> ScopedMessages:
        """Return the back end limited to a user, who is the same one."""
        require_own(self._user_id, user_id)
        return self

    async def open(self) -> None:
        """Do nothing: the store is open."""

    async def close(self) -> None:
        """Do nothing: the store that this one was made of is closed by itself."""

    async def ping(self) -> None:
        """Make one cheap round trip to the server."""
        await self._backend.ping()

    async def pending(self) -> list[str]:
        """Return what opening the store would change there."""
        return await self._backend.pending()

    # Writes

    async def store(self, turn: Turn) -> None:
        """Store what is in the user's conversations."""
        if turn.conversation is not None:
            require_own(self._user_id, turn.conversation.record.user_id)
        try:
            await self._backend.store(turn)
        except NotSeenError as error:
            raise IntegrityError(str(error)) from None

    async def store_many(
        self,
        conversations: Sequence[Snapshot[Conversation]],
        messages: Sequence[Snapshot[Message]],
        traces: Sequence[Snapshot[TurnTrace]],
    ) -> None:
        """Store what is in the user's conversations, one record after another."""
        for conversation in conversations:
            await self.store(Turn(conversation))
        if messages:
            await self.store(Turn(messages=messages))
        for trace in traces:
            await self.store(Turn(trace=trace))

    async def flag_message(self, message_id: str, flagged: bool) -> bool:
        """Set the flag of a message that is seen."""
        try:
            return await self._backend.flag_message(message_id, flagged)
        except NotSeenError:
            return False

    async def delete_message(self, message_id: str) -> bool:
        """Delete a message that is seen."""
        try:
            return await self._backend.delete_message(message_id)
        except NotSeenError:
            return False

    async def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation of the user."""
        try:
            return await self._backend.delete_conversation(conversation_id)
        except NotSeenError:
            return False

    async def create_conversation(self, conversation: Snapshot[Conversation]) -> Row | None:
        """Store a conversation of the user if there is none with its id."""
        require_own(self._user_id, conversation.record.user_id)
        row = await self._backend.create_conversation(conversation)
        if row is not None and row_user(row) != self._user_id:
            raise taken("conversation", conversation.record.id)
        return row

    async def move_user(self, from_user_id: str, to_user_id: str) -> int:
        """Refuse: the records would not be seen any more."""
        require_own(self._user_id, to_user_id)
        return 0

    async def rewrite(
        self,
        kind: RecordKind,
        ids: Sequence[str],
        change: Callable[[Row], Snapshot[Any] | None],
    ) -> Sequence[str]:
        """Store other versions of records that are seen."""
        try:
            return await self._backend.rewrite(kind, ids, change)
        except NotSeenError:
            return []

    # A conversation as a log

    async def append(self, given: Append) -> int | Refusal:
        """Append to a conversation of the user."""
        try:
            return await self._backend.append(given)
        except NotSeenError:
            return Refusal(is_known=False, newest_id=None, stored=())

    async def pop(
        self, conversation_id: str, check: Callable[[Row], object], *, checks_all: bool = False
    ) -> Row | None:
        """Delete the newest message of a conversation of the user."""
        try:
            return await self._backend.pop(conversation_id, check, checks_all=checks_all)
        except NotSeenError:
            return None

    async def rewind(self, conversation_id: str, after: str | None) -> int:
        """Delete the last messages of a conversation of the user."""
        try:
            return await self._backend.rewind(conversation_id, after)
        except NotSeenError:
            if after is None:
                return 0
        raise NotFoundError(f"message {after!r} is no message of this conversation")

    async def fork(self, fork: Fork) -> dict[str, str]:
        """Copy a conversation of the user to a new one of the same user."""
        new = fork.copy.record
        require_own(self._user_id, new.user_id)
        try:
            return await self._backend.fork(fork)
        except ConflictError:
            if await self._backend.get_conversation(new.id) is not None:
                raise
            raise taken("conversation", new.id) from None
        except NotSeenError:
            pass
        raise NotFoundError(f"conversation {fork.conversation_id!r} is not stored")

    # Erasure and retention

    async def newest_sequence(self) -> Any:
        """Return a bound for `erase`."""
        return await self._backend.newest_sequence()

    async def erase(self, user_id: str, limit: int, newest: Any) -> DeletedCounts:
        """Delete some of the user's conversations with everything in them."""
        require_own(self._user_id, user_id)
        return await self._backend.erase(user_id, self._backend.deleted_at_once, newest)

    async def prune(self, conversations: Sequence[Row], before: int, limit: int) -> tuple[int, int]:
        """Delete some records of the first of some conversations, if it is the user's."""
        try:
            first = conversations[:1]
            return await self._backend.prune(first, before, self._backend.deleted_at_once)
        except NotSeenError:
            return 0, 1

    async def purge(self) -> None:
        """Remove what was deleted from the files."""
        await self._backend.purge()

    def iter_old(
        self, before: int, size: int, user_id: str | None = None
    ) -> AsyncIterator[Sequence[Row]]:
        """Yield the rows of the user's old conversations."""
        return self._backend.iter_old(before, size)

    # Reads

    async def get_conversation(self, conversation_id: str) -> Row | None:
        """Return the row of a conversation."""
        return await self._backend.get_conversation(conversation_id)

    async def get_message(self, message_id: str) -> Row | None:
        """Return the row of a message."""
        return await self._backend.get_message(message_id)

    async def get_trace(self, by: TraceKey, key: str) -> Row | None:
        """Return the row of a trace."""
        return await self._backend.get_trace(by, key)

    async def get_messages(self, message_ids: Sequence[str]) -> Sequence[Row]:
        """Return the rows of messages."""
        return await self._backend.get_messages(message_ids)

    async def list_conversations(self, page: ConversationPage) -> Sequence[Row]:
        """Return a page of conversations."""
        if page.by == "user_id":
            require_own(self._user_id, page.owner)
        return await self._backend.list_conversations(page)

    async def list_messages(self, page: MessagePage) -> Sequence[Row]:
        """Return a page of messages."""
        if page.by == "user_id":
            require_own(self._user_id, page.owner)
        return await self._backend.list_messages(page)

    async def next_messages(self, conversation_id: str, cursor: Any, size: int) -> Batch:
        """Return the messages after a cursor."""
        return await self._backend.next_messages(conversation_id, cursor, size)

    async def list_newest(self, page: NewestPage) -> Sequence[Row]:
        """Return a page of messages, newest first."""
        return await self._backend.list_newest(page)

    async def count_messages(self, conversation_ids: Sequence[str]) -> dict[str, int]:
        """Return how many messages some conversations have."""
        return await self._backend.count_messages(conversation_ids)

    async def list_conversation_traces(self, conversation_id: str) -> Sequence[Row]:
        """Return all traces of a conversation."""
        return await self._backend.list_conversation_traces(conversation_id)

    async def list_agent_traces(
        self, agent_id: str, limit: int, offset: int, user_id: str | None = None
    ) -> Sequence[Row]:
        """Return traces of an agent."""
        return await self._backend.list_agent_traces(agent_id, limit, offset)

    async def find_traces(self, page: TracePage) -> Sequence[Row]:
        """Return a page of the traces that match."""
        require_own(self._user_id, page.where.user_id)
        return await self._backend.find_traces(page)

    async def summarize(
        self, where: TraceFilter, by: UsageKey, conversation_ids: Sequence[str] | None = None
    ) -> list[UsageSummary]:
        """Return the sums of the traces that match."""
        require_own(self._user_id, where.user_id)
        return await self._backend.summarize(where, by, conversation_ids)

    def iter_stored(self, kind: RecordKind, size: int) -> AsyncIterator[Sequence[Row]]:
        """Yield all records of a kind."""
        return self._backend.iter_stored(kind, size)

    # Search

    async def search_state(self) -> SearchState | None:
        """Return how the index was made."""
        return await self._backend.search_state()

    async def prepare_search(self) -> SearchState | None:
        """Return how the index was made, which is up to date afterwards."""
        return await self._backend.prepare_search()

    async def count_found(self, clauses: Sequence[Clause], scope: SearchScope) -> Counts:
        """Count messages that are seen."""
        require_own(self._user_id, scope.user_id)
        return await self._backend.count_found(clauses, scope)

    async def list_found(self, page: FoundPage) -> Sequence[Row]:
        """Return messages that are seen."""
        require_own(self._user_id, page.scope.user_id)
        return await self._backend.list_found(page)
