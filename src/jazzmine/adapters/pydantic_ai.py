"""Conversations of Pydantic AI (`pydantic-ai`) in a message store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._calls import as_async, finished, require_session_id
from jazzmine.adapters._direct import retry_conflicts
from jazzmine.adapters._recorder import append_with_traces
from jazzmine.adapters._versions import supported
from jazzmine.errors import ConflictError, IntegrityError, NotFoundError
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace

with supported("pydantic-ai-slim", "2.66.0", "3.0"):
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )

    from jazzmine.adapters._pydantic_ai_messages import (
        State,
        StoredEntry,
        entries_of,
        entry_messages,
        has_state,
        note_message,
        state_of,
        stored_entry,
        tips_of,
        used_entries,
    )
    from jazzmine.adapters._pydantic_ai_recorder import JazzmineRecorder, Runs

__all__ = ["JazzmineConversationStore"]

_PAGE = 32

# How long an unfinished deletion keeps a conversation from being stored anew, in ms: longer than
# the store's own calls may take.
_DELETION_MS = 60_000


@dataclass(frozen=True)
class _Log:
    """The state of a conversation, and its newest message."""

    state: State = field(default_factory=State)
    newest: Message | None = None


class JazzmineConversationStore(ConversationStore):
    """Conversations of Pydantic AI, each of which is a conversation of a message store.

    Implements `pydantic_ai.conversation_store.ConversationStore`. An entry is a message of the same
    id; the record stands in the newest message, and changes in the same step. A fork uses the
    messages of its source, which stay stored after the source is deleted, as far as forks use
    them. It keeps nothing in memory, so any number of processes may use one conversation at once.

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
        self._store = as_async(store)
        self._agent_id = require_session_id(agent_id, "agent_id")
        self._user_id = None if user_id is None else require_session_id(user_id, "user_id")
        self._runs = Runs(self._store, self._agent_id, self._user_id)

    def recorder(self) -> JazzmineRecorder:
        """Return a capability for an agent, which stores the traces of its runs as they are saved.

        A trace is stored in one step with what is saved of its run. Of a run that fails nothing
        is saved; its trace belongs to a flagged message of the conversation. An untitled
        conversation gets a title from the user's first message.
        """
        return JazzmineRecorder(self._runs)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, or None."""
        return (
            await self._log(require_session_id(conversation_id, "conversation_id"))
        ).state.record

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> list[ConversationRecord]:
        """Return the agent's records, newest `updated_at` first.

        Args:
            scope: only those with this scope; "" is a scope, and None is all.
            limit: how many at most.
        """
        while True:
            try:
                found = await self._newest(scope, limit)
            except NotFoundError:
                continue  # A conversation was deleted between two pages.
            return found

    async def _newest(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        by_id: dict[str, ConversationRecord] = {}
        after: str | None = None
        while True:
            conversations = await self._page(scope, after)
            mine = [
                conversation.id
                for conversation in conversations
                if conversation.agent_id == self._agent_id
            ]
            records = await asyncio.gather(*map(self.read_record, mine))
            in_scope = [
                record for record in records if record and (scope is None or record.scope == scope)
            ]
            by_id |= {record.conversation_id: record for record in in_scope}
            found = sorted(by_id.values(), key=lambda record: record.updated_at, reverse=True)[
                :limit
            ]
            if len(conversations) < _PAGE:
                return found
            # A conversation is updated in the millisecond of its record, or later.
            after, oldest = conversations[-1].id, conversations[-1].last_updated_at
            if len(found) == limit and (not found or _ms(found[-1]) > oldest):
                return found

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
        await finished(_decided(record.conversation_id, write))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation with all messages that no fork of it uses.

        Raises:
            ConversationConflict: no record with `expected_revision` is stored.
        """
        await finished(
            _decided(conversation_id, partial(self._delete, conversation_id, expected_revision))
        )

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

        Raises:
            LookupError: one of them is not stored.
        """
        known: dict[str, StoredEntry] = {}
        line: list[StoredEntry] = []
        entry_id = head_id
        while entry_id is not None and (limit is None or len(line) < limit):
            if entry_id not in known:
                known |= await self._around(entry_id, limit, known.values())
            line.append(known[entry_id])
            entry_id = line[-1].parent_id
        return entries_of(line[::-1])

    async def _around(
        self, entry_id: str, limit: int | None, known: Iterable[StoredEntry]
    ) -> dict[str, StoredEntry]:
        """Return an entry with other entries of its conversation."""
        message = await self._store.get_message_by_id(entry_id)
        if message is None or stored_entry(message) is None:
            raise KeyError(entry_id)
        conversation_id, found = message.conversation_id, [message]
        if limit is None or any(
            conversation.conversation_id == conversation_id for conversation in known
        ):
            found += await self._store.get_messages_by_conversation_id(conversation_id)
        elif limit > 1:
            found += await self._store.get_immediate_context(conversation_id, limit)
        return {entry.id: entry for entry in map(stored_entry, found) if entry}

    async def _page(self, scope: str | None, after: str | None) -> list[Conversation]:
        if scope:
            return await self._store.get_conversations_by_user_id(scope, limit=_PAGE, after=after)
        return await self._store.get_conversations_by_agent_id(
            self._agent_id, limit=_PAGE, after=after
        )

    async def _log(self, conversation_id: str) -> _Log:
        while True:
            found = await self._store.get_immediate_context(conversation_id, 1)
            last = found[0].id if found else None
            try:
                # Those that are flagged.
                found += await self._store.get_messages_by_conversation_id(
                    conversation_id, after=last
                )
            except NotFoundError:
                continue
            if found and not any(map(has_state, found)):
                found = await self._store.get_messages_by_conversation_id(conversation_id)
            states = [message for message in found if has_state(message)]
            return _Log(state_of(states[-1]) if states else State(), found[-1] if found else None)

    async def _write(
        self,
        record: ConversationRecord,
        entries: list[ConversationEntry],
        expected_revision: str | None,
    ) -> None:
        conversation_id = require_session_id(record.conversation_id, "conversation_id")
        user_id = require_session_id(record.scope or self._user_id, "the scope, or user_id,")
        log = await self._log(conversation_id)
        if log.state.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        if log.newest is not None and log.state.released:
            if time.time() * 1000 - log.newest.timestamp < _DELETION_MS:
                raise ConflictError(f"{conversation_id!r} is being deleted")
            await self._trim(conversation_id, log)
            log = _Log()
        borrowed = await self._borrowed(record, entries, log.state)
        if log.state.record is None:
            stored = await self._store.get_or_create_conversation(
                Conversation(id=conversation_id, user_id=user_id, agent_id=self._agent_id)
            )
            if log.newest is not None and stored.user_id != user_id:
                await self._store.update_conversation(
                    stored.model_copy(update={"user_id": user_id, "agent_id": self._agent_id})
                )
        if borrowed:
            log = await self._borrow(conversation_id, user_id, log, borrowed)
        state = replace(log.state, record=record)
        await self._append(conversation_id, user_id, log, state, entries, _ms(record))

    async def _borrowed(
        self, record: ConversationRecord, entries: list[ConversationEntry], state: State
    ) -> dict[str, list[str]]:
        """Return the sources of which a record refers to more entries, with the ids of all these.

        Raises:
            ConversationConflict: the newest entry of the record is not stored.
        """
        parents = {entry.parent_id for entry in entries if entry.parent_id is not None}
        known = tips_of(state.record) | {entry.id for entry in entries}
        referred = (tips_of(record) | parents) - known
        found = await self._store.get_messages_by_ids(referred) if referred else []
        stored = [entry for entry in map(stored_entry, found) if entry]
        if record.head_id in referred - {entry.id for entry in stored}:
            raise ConversationConflict(record.conversation_id)
        borrowed: dict[str, set[str]] = {}
        for entry in stored:
            if entry.conversation_id != record.conversation_id:
                held = state.sources.get(entry.conversation_id, [])
                borrowed.setdefault(entry.conversation_id, {*held}).add(entry.id)
        return {source: sorted(ids) for source, ids in borrowed.items()}

    async def _borrow(
        self, conversation_id: str, user_id: str, log: _Log, borrowed: dict[str, list[str]]
    ) -> _Log:
        """Have other conversations keep the entries that a conversation is about to refer to.

        Raises:
            ConversationConflict: some of them were deleted.
        """
        # First here, because a source that is deleted keeps what its forks' states refer to.
        state = replace(log.state, sources={**log.state.sources, **borrowed})
        note = f"[fork of: {', '.join(borrowed)}]"
        log = await self._append(conversation_id, user_id, log, state, note=note)
        try:
            for source, ids in borrowed.items():
                await _decided(conversation_id, partial(self._lend, source, conversation_id, ids))
        except ConversationConflict:
            await self._trim(conversation_id, log)
            raise
        return log

    async def _lend(self, source: str, fork: str, ids: list[str]) -> None:
        """Note in a conversation that another one refers to some of its entries.

        Raises:
            ConversationConflict: they are deleted, or about to be.
        """
        log = await self._log(source)
        messages = await self._store.get_messages_by_conversation_id(source)
        if log.newest is None or not used_entries(messages, log.state).keys() >= set(ids):
            raise ConversationConflict(fork)
        state = replace(log.state, forks={**log.state.forks, fork: ids})
        await self._append(source, log.newest.user_id, log, state, note=f"[forked: {fork}]")

    async def _delete(self, conversation_id: str, expected_revision: str) -> None:
        log = await self._log(conversation_id)
        if log.state.record is None or log.state.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        await self._trim(conversation_id, replace(log, state=replace(log.state, record=None)))

    async def _trim(self, conversation_id: str, log: _Log) -> None:
        """Delete what neither the record of a conversation nor forks use; without either, all."""
        if log.newest is None:
            return
        old, record = log.state, log.state.record
        forks = await self._forks(conversation_id, old)
        released = record is None and not forks
        messages = (
            [] if released else await self._store.get_messages_by_conversation_id(conversation_id)
        )
        used = used_entries(messages, replace(old, forks=forks))
        referred = tips_of(record) | {entry.parent_id for entry in used.values()}
        sources = {
            source: left
            for source, ids in old.sources.items()
            if (left := [entry_id for entry_id in ids if entry_id in referred])
        }
        state = State(record, forks, sources, released)
        note = "[deleted]" if record is None else "[fork deleted]"
        await self._append(conversation_id, log.newest.user_id, log, state, note=note)
        if released:
            await self._store.delete_conversation(conversation_id)
        for message in messages:
            # What others have stored there is deleted with the record.
            if message.id not in used and (record is None or stored_entry(message)):
                await self._store.delete_message(message.id)
        for source, ids in old.sources.items():
            if ids != sources.get(source):
                await retry_conflicts(partial(self._trim_again, source))
        if forks != await self._forks(conversation_id, state):
            # One of them was deleted meanwhile.
            await retry_conflicts(partial(self._trim_again, conversation_id))

    async def _trim_again(self, conversation_id: str) -> None:
        log = await self._log(conversation_id)
        if not log.state.released:
            await self._trim(conversation_id, log)

    async def _forks(self, conversation_id: str, state: State) -> dict[str, list[str]]:
        """Return the forks of a state that still refer to entries of its conversation."""
        logs = await asyncio.gather(*map(self._log, state.forks))
        found = [log.state.sources.get(conversation_id) for log in logs]
        return {fork: ids for fork, ids in zip(state.forks, found, strict=True) if ids}

    async def _append(
        self,
        conversation_id: str,
        user_id: str,
        log: _Log,
        state: State,
        entries: Sequence[ConversationEntry] = (),
        timestamp: int | None = None,
        *,
        note: str = "[record]",
    ) -> _Log:
        """Append entries, or a note, with a new state, unless there are newer messages by now."""
        fields: dict[str, Any] = {"conversation_id": conversation_id, "user_id": user_id}
        if timestamp is not None:
            fields["timestamp"] = timestamp
        messages = entry_messages(entries, state, **fields) if entries else []
        last = None if log.newest is None else log.newest.id
        runs = self._runs.of(entries, messages)
        messages = messages or [note_message(note, state, **fields)]
        for run, _ in runs:
            run.user_id = user_id

        async def append(trace: TurnTrace | None) -> list[Message]:
            return await self._store.append_messages(
                conversation_id, messages, expected_last=last, trace=trace
            )

        try:
            stored = await append_with_traces(self._store, runs, append)
        except IntegrityError as error:
            if await self._store.get_messages_by_ids([message.id for message in messages]):
                raise  # These entries were stored before.
            raise ConflictError(f"{conversation_id!r} was deleted meanwhile") from error
        for run, _ in runs:
            self._runs.end(run)
        return _Log(state, stored[-1])


async def _decided(conversation_id: str, attempt: Any) -> None:
    """Repeat an attempt until no other writer comes between, or the framework has a conflict."""
    try:
        await retry_conflicts(attempt)
    except ConflictError as error:
        raise ConversationConflict(conversation_id) from error


def _ms(record: ConversationRecord) -> int:
    return int(record.updated_at.timestamp() * 1000)
