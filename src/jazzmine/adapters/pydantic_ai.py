"""Conversations of Pydantic AI (`pydantic-ai`) in a message store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._calls import as_async, finished, require_session_id, retry_conflicts
from jazzmine.adapters._conversations import append_with_traces
from jazzmine.adapters._versions import supported
from jazzmine.errors import ConflictError, IntegrityError, NotFoundError
from jazzmine.records.messages import Conversation, Message

with supported("pydantic-ai-slim", "2.66.0", "3.0"):
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )

    from jazzmine.adapters._pydantic_ai_messages import (
        Log,
        copied,
        entry_messages,
        is_deleted,
        note_message,
        record_of,
    )
    from jazzmine.adapters._pydantic_ai_recorder import JazzmineRecorder

__all__ = ["JazzmineConversationStore"]

_PAGE = 32

# How long an unfinished deletion keeps a conversation from being stored anew, in ms: longer than
# the store's own calls may take.
_DELETION_MS = 60_000


class JazzmineConversationStore(ConversationStore):
    """Conversations of Pydantic AI, each of which is a conversation of a message store.

    Implements `pydantic_ai.conversation_store.ConversationStore`. An entry is a message of the same
    id; the record is in the newest message, and changes in the same step. A fork begins with
    copies of its source's entries, and needs the source no more. A message that was deleted or
    flagged is in no history. It keeps nothing in memory, so any number of processes may use one
    conversation at once.

    Args:
        store: an open message store; with a sync one, calls run in worker threads.
        agent_id: the agent of the conversations; those of other agents are not listed.
        user_id: the user of conversations that have no `scope`. Others belong to the user that
            their `scope` names.

    Raises:
        ValueError: an id is missing.
        TypeError: an argument is of another type.
    """

    def __init__(
        self,
        store: AsyncMessageStore | MessageStore,
        *,
        agent_id: str,
        user_id: str | None = None,
    ) -> None:
        self._store: AsyncMessageStore = as_async(store)
        self._agent_id = require_session_id(agent_id, "agent_id")
        self._user_id = None if user_id is None else require_session_id(user_id, "user_id")
        self._recorder = JazzmineRecorder(self._store, self._agent_id, self._user_id)

    def recorder(self) -> JazzmineRecorder:
        """Return a capability for an agent, which stores the traces of its runs as they are saved.

        A trace is stored in one step with what is saved of its run. Of a run that fails nothing
        is saved; its trace belongs to a flagged message of the conversation. An untitled
        conversation gets a title from the user's first message.
        """
        return self._recorder

    async def save(self, conversation: Any, *, scope: str | None = None) -> list[ConversationEntry]:
        """Save a conversation or a run's result, as every store of the framework does.

        Raises:
            ConversationConflict: it was saved or deleted since it was loaded, or has another scope;
                only the traces of its runs are stored.
        """
        try:
            return await super().save(conversation, scope=scope)
        except ConversationConflict as error:
            messages = getattr(conversation, "conversation", conversation).messages
            await finished(self._recorder.refuse(messages, scope, error))
            raise

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, or None."""
        return (await self._state(require_session_id(conversation_id, "conversation_id")))[0]

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> list[ConversationRecord]:
        """Return the agent's records, newest `updated_at` first.

        Args:
            scope: only those with this scope; "" is a scope, and None is all.
            limit: how many at most.
        """
        read = (
            partial(self._store.get_conversations_by_user_id, scope)
            if scope
            else partial(self._store.get_conversations_by_agent_id, self._agent_id)
        )
        found: list[ConversationRecord] = []
        after: str | None = None
        while True:
            try:
                page = await read(limit=_PAGE, after=after)
            except NotFoundError:  # The last conversation of a page was deleted.
                found, after = [], None
                continue
            mine = [stored.id for stored in page if stored.agent_id == self._agent_id]
            records = await asyncio.gather(*map(self.read_record, mine))
            found += [record for record in records if record and scope in (None, record.scope)]
            if len(page) < _PAGE or (limit is not None and len(found) >= limit):
                return sorted(found, key=lambda record: record.updated_at, reverse=True)[:limit]
            after = page[-1].id

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and new entries in one step.

        Raises:
            ConversationConflict: the stored record's revision is not `expected_revision`, or
                `record.head_id` is not stored; nothing is written.
            ValueError: the conversation has no scope, and the store no `user_id`.
        """
        write = partial(self._write, record, list(new_entries), expected_revision)
        await _decided(record.conversation_id, write)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation with all messages that no fork of it uses.

        Raises:
            ConversationConflict: no record with `expected_revision` is stored.
        """
        await _decided(conversation_id, partial(self._delete, conversation_id, expected_revision))

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry.

        Raises:
            LookupError: it is not stored.
        """
        return (await self.read_history(entry_id, limit=1))[0]

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries up to one, oldest first, or the last `limit` of them.

        Those are left out that were deleted or flagged.

        Raises:
            LookupError: the last one is not stored.
        """
        if head_id is None:
            return []
        message = await self._store.get_message_by_id(head_id)
        if message is None:
            raise KeyError(head_id)
        read = partial(self._store.get_messages_by_conversation_id, message.conversation_id)
        if limit is not None:
            newest = await read(order="newest", limit=limit + _PAGE)
            with suppress(KeyError):
                found = Log(newest[::-1]).history(head_id, limit)
                # The parent of the first one is known, or all of them.
                if (found and found[0].parent_id) or len(newest) < limit + _PAGE:
                    return found
        return Log(await read()).history(head_id, limit)

    async def _state(
        self, conversation_id: str
    ) -> tuple[ConversationRecord | None, Message | None]:
        """Return the record of a conversation, and its newest message."""
        found = await self._store.get_messages_by_conversation_id(
            conversation_id, order="newest", limit=1
        )
        newest = found[0] if found else None
        if newest is None or is_deleted(newest):
            return None, newest
        record = None if newest.is_flagged else record_of(newest)
        # In a copy of a conversation the ids are others.
        if record is not None and record.head_id == newest.id and not record.branches:
            return record, newest
        messages = await self._store.get_messages_by_conversation_id(conversation_id)
        return Log(messages).record(), messages[-1] if messages else None

    async def _write(
        self,
        record: ConversationRecord,
        entries: list[ConversationEntry],
        expected_revision: str | None,
    ) -> None:
        conversation_id = require_session_id(record.conversation_id, "conversation_id")
        user_id = require_session_id(record.scope or self._user_id, "the scope, or user_id,")
        stored, newest = await self._state(conversation_id)
        if (None if stored is None else stored.revision) != expected_revision:
            raise ConversationConflict(conversation_id)
        if newest is not None and is_deleted(newest):
            if time.time() * 1000 - newest.timestamp < _DELETION_MS:
                raise ConflictError(f"{conversation_id!r} is being deleted")
            await self._store.delete_conversation(conversation_id)
            newest = None
        if stored is None and record.head_id not in {None, *(entry.id for entry in entries)}:
            record, entries = await self._forked(record, entries)
        if stored is None:
            owner: dict[str, Any] = {"user_id": user_id, "agent_id": self._agent_id}
            conversation = Conversation(id=conversation_id, **owner)
            found = await self._store.get_or_create_conversation(conversation)
            if newest is not None and found.user_id != user_id:
                await self._store.update_conversation(found.model_copy(update=owner))
        await self._append(record, user_id, newest, entries)

    async def _forked(
        self, record: ConversationRecord, entries: list[ConversationEntry]
    ) -> tuple[ConversationRecord, list[ConversationEntry]]:
        """Return a record, and its entries after copies of those that it takes from a source.

        Raises:
            ConversationConflict: these are not stored.
        """
        try:
            source = await self.read_history(record.head_id)
        except LookupError as error:
            raise ConversationConflict(record.conversation_id) from error
        copies = copied(source, record.conversation_id)
        return replace(record, head_id=copies[-1].id), [*copies, *entries]

    async def _delete(self, conversation_id: str, expected_revision: str) -> None:
        record, newest = await self._state(conversation_id)
        if record is None or newest is None or record.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        # From now on nobody else can store it anew before it is gone.
        fields = {"conversation_id": conversation_id, "user_id": newest.user_id}
        note = note_message("[deleted]", None, **fields)
        try:
            await self._store.append_messages(conversation_id, [note], expected_last=newest.id)
        except IntegrityError as error:
            raise ConflictError(f"{conversation_id!r} was deleted meanwhile") from error
        await self._store.delete_conversation(conversation_id)

    async def _append(
        self,
        record: ConversationRecord,
        user_id: str,
        newest: Message | None,
        entries: Sequence[ConversationEntry],
    ) -> None:
        """Append entries, or a note, with a new record, unless there are newer messages by now."""
        conversation_id = record.conversation_id
        fields: dict[str, Any] = {
            "conversation_id": conversation_id,
            "user_id": user_id,
            "timestamp": int(record.updated_at.timestamp() * 1000),
        }
        messages = entry_messages(entries, record, **fields) if entries else []
        runs = self._recorder.runs_of(entries, messages, user_id)
        messages = messages or [note_message("[record]", record, **fields)]
        last = None if newest is None else newest.id
        try:
            await append_with_traces(self._store, conversation_id, messages, runs, last)
        except IntegrityError as error:
            raise ConflictError(f"{conversation_id!r} was deleted meanwhile") from error
        self._recorder.forget(entries)


async def _decided(conversation_id: str, attempt: Any) -> None:
    """Repeat an attempt until no other writer comes between, or the framework has a conflict."""
    try:
        await finished(retry_conflicts(attempt))
    except ConflictError as error:
        raise ConversationConflict(conversation_id) from error
