"""The methods of a message store about conversations, also as logs of messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from jazzmine._async.message_store.forking import fork_decrypted
from jazzmine._async.message_store.records import StoredRecords
from jazzmine._async.operation import operation
from jazzmine.errors import ConflictError
from jazzmine.records.arguments import optional_id, require_id, require_metadata, require_text
from jazzmine.records.base import snapshot, snapshot_all
from jazzmine.records.conversation_log import (
    Refusal,
    fork_salt,
    forked_id,
    in_order,
    merged,
    messages_stored_before,
    not_before,
    require_one_conversation,
)
from jazzmine.records.hook_arguments import Append, ConversationPage, Fork, MessagePage, Turn
from jazzmine.records.json_values import contains
from jazzmine.records.log import ANY, NOTHING, AnyMessage, Nothing
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.rows import row_id
from jazzmine.records.traces import TurnTrace


class ConversationMethods(StoredRecords):
    """Stores, lists, changes, copies and deletes conversations, and appends to them."""

    @operation()
    async def store_conversation(self, conversation: Conversation) -> None:
        """Store a conversation, in place of the one with the same id if there is one."""
        await self._put(Turn([snapshot(conversation, Conversation)]))

    @operation()
    async def update_conversation(self, conversation: Conversation) -> None:
        """Do the same as `store_conversation`."""
        await self._put(Turn([snapshot(conversation, Conversation)]))

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

        return await self._edit("conversations", self._conversations, owner, edited)

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
        user = optional_id("user_id", user_id)
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
                appended. If these are stored already, it is stored unless there is one.
            replace_after: the id of a message, or None for all: the messages after it are deleted
                in the same step, before the messages are appended. So regenerating an answer and
                editing a question are one call, made after the model has answered. Traces go
                with their messages, and sums of usage do not count them any more.

        Returns:
            The messages as they are stored.

        Raises:
            ConflictError: another message than `expected_last` is the newest; it is `newest_id`.
                So is a message that is delivered twice at once, and answered differently.
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
        return await self._append(Append(owner, ordered, expected_last, of_trace, replace_after))

    async def _append(self, given: Append) -> list[Message]:
        owner, ordered, expected_last, trace, replace_after = given
        encoded = list(map(self._encoded, ordered))
        of_turn = None if trace is None else self._encoded(trace)
        found = await self.backend.append(given._replace(messages=encoded, trace=of_turn))
        if isinstance(found, Refusal):
            records = map(self._messages.record, found.stored)
            stored = {record.id: record for record in records}
            done = messages_stored_before(
                ordered, stored, found, owner, expected_last, replace_after
            )
            if of_turn is None:
                return done
            if await self.backend.get_trace("message_id", of_turn.record.message_id) is None:
                await self.backend.store(Turn(traces=[of_turn]))  # they were appended without it
            return done
        return [not_before(found, message).record for message in ordered]

    @operation("messages")
    async def pop_message(self, conversation_id: str) -> Message | None:
        """Delete the newest message of a conversation, and its trace; no two calls return one.

        Sums of usage do not count the trace any more.

        Returns:
            The message, or None if there is none.
        """
        owner = require_id("conversation_id", conversation_id)

        read = partial(self._messages.record, conversation_id=owner)
        row = await self.backend.pop(owner, read)
        return None if row is None else read(row)

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
        last = optional_id("after", after)
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
            ConflictError: another conversation with the new one's id is stored, or one that was
                copied up to another message than `until`.
        """
        owner = require_id("conversation_id", conversation_id)
        last = optional_id("until", until)
        copy = snapshot(new_conversation, Conversation)
        fork = Fork(owner, last, copy, fork_salt(copy.record.id))
        try:
            if self.codec is None:
                return await self.backend.fork(fork)
            return await fork_decrypted(self, self.codec, fork)
        except ConflictError:
            ids = await self._ids_of_copy(fork)
            if ids is None:
                raise
            return ids

    async def _ids_of_copy(self, fork: Fork) -> dict[str, str] | None:
        """Return what `fork` returned when it was done before; None if it was not."""
        page = MessagePage("conversation_id", fork.conversation_id, None, None)
        sources = map(row_id, await self.backend.list_messages(page))
        ids = {source: forked_id(fork.salt, source) for source in sources}
        copies = set(map(row_id, await self.backend.get_messages(list(ids.values()))))
        copied = {source: copy for source, copy in ids.items() if copy in copies}
        if copied:
            return copied if fork.until in (None, next(reversed(copied))) else None
        stored = await self.backend.get_conversation(fork.copy.record.id)
        is_copy = stored is not None and self._conversations.record(stored) == fork.copy.record
        return {} if is_copy and not ids else None
