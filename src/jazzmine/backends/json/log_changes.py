"""What the methods that treat a conversation as a log change in the tables of a JSON store."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from uuid import UUID

from jazzmine.backends.json.lines import read_conversation, read_message, read_trace
from jazzmine.backends.json.pending_changes import PendingChanges
from jazzmine.backends.json.tables import MessageRow
from jazzmine.errors import ConflictError, NotFoundError
from jazzmine.records.base import Snapshot, snapshot
from jazzmine.records.conversation_log import (
    Erased,
    Newest,
    forked,
    messages_to_append,
    unknown_conversation,
)
from jazzmine.records.log import AnyMessage
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace

__all__ = ["append", "create", "erase", "fork", "pop", "prune", "rewind"]


def create(draft: PendingChanges, conversation: Snapshot[Conversation]) -> bytes:
    """Store a conversation if its id is new; return the line of the stored one."""
    row = draft.conversation(conversation.record.id)
    if row is not None:
        return row.line
    draft.put_conversation(conversation)
    return conversation.json


def append(
    draft: PendingChanges,
    conversation_id: str,
    messages: Sequence[Snapshot[Message]],
    expected_last: str | AnyMessage | None,
) -> list[bytes]:
    """Append messages, and return the lines of the stored ones; raises as the hook does."""
    conversation = draft.conversation(conversation_id)
    if conversation is None:
        raise unknown_conversation(conversation_id)
    given = [message.record for message in messages]
    rows = [row for message in given if (row := draft.message(message.id)) is not None]
    stored = {row.id: read_message(row.line) for row in rows}
    last = draft.newest_message(conversation_id)
    newest = None if last is None else Newest(last.id, last.timestamp)
    appended = [
        Snapshot(message) for message in messages_to_append(given, stored, newest, expected_last)
    ]
    if not appended:
        return [row.line for row in rows]
    draft.put_messages(appended)
    latest = appended[-1].record.timestamp
    if conversation.last_updated_at < latest:
        record = read_conversation(conversation.line)
        record.last_updated_at = latest
        draft.put_conversation(Snapshot(record))
    return [message.json for message in appended]


def pop(draft: PendingChanges, conversation_id: str) -> Message | None:
    """Delete the newest message and return it, or None."""
    row = draft.newest_message(conversation_id)
    if row is None:
        return None
    message = read_message(row.line)
    draft.delete_message(row.id)
    return message


def rewind(draft: PendingChanges, conversation_id: str, after: str | None) -> int:
    """Delete the messages after one, or all; return how many."""
    rows = draft.messages_of("conversation_id", conversation_id)
    later = rows if after is None else rows[_index_of(rows, after) + 1 :]
    for row in later:
        draft.delete_message(row.id)
    return len(later)


def fork(
    draft: PendingChanges,
    conversation_id: str,
    until: str | None,
    copy: Snapshot[Conversation],
    salt: UUID,
) -> dict[str, str]:
    """Store a conversation with copies of messages and traces; return the new ids by the old."""
    if draft.conversation(conversation_id) is None:
        raise NotFoundError(f"conversation {conversation_id!r} is not stored")
    rows = draft.messages_of("conversation_id", conversation_id)
    copied = rows if until is None else rows[: _index_of(rows, until) + 1]
    owner = copy.record.id
    if draft.conversation(owner) is not None:
        raise ConflictError(f"conversation {owner!r} is stored already; fork to a new one")
    draft.put_conversation(copy)
    messages = [read_message(row.line) for row in copied]
    rows_of_traces = [row for one in copied if (row := draft.trace_of(one.id)) is not None]
    rows_of_traces.sort(key=attrgetter("sequence"))
    traces = [read_trace(row.line) for row in rows_of_traces]
    ids, new_messages, new_traces = forked(messages, traces, owner, salt)
    draft.put_messages([snapshot(message, Message) for message in new_messages])
    for trace in new_traces:
        draft.put_trace(snapshot(trace, TurnTrace))
    return ids


def _index_of(rows: Sequence[MessageRow], message_id: str) -> int:
    for index, row in enumerate(rows):
        if row.id == message_id:
            return index
    raise NotFoundError(f"message {message_id!r} is no message of this conversation")


def erase(draft: PendingChanges, user_id: str) -> Erased:
    """Delete all records of a user, and return how many."""
    conversations = draft.conversations_of(user_id)
    messages = {row.id for row in draft.messages_of("user_id", user_id)}
    for conversation in conversations:
        messages.update(row.id for row in draft.messages_of("conversation_id", conversation.id))
    traces = {row.id for row in draft.traces_of(user_id)}
    traces.update(trace.id for one in messages if (trace := draft.trace_of(one)) is not None)
    draft.remove_traces([row for one in traces if (row := draft.trace(one)) is not None])
    draft.messages.update(dict.fromkeys(messages))
    draft.conversations.update(dict.fromkeys(row.id for row in conversations))
    return Erased(len(conversations), len(messages), len(traces))


def prune(draft: PendingChanges, ids: Sequence[str], before: int) -> int:
    """Delete those of some conversations that are older than `before`; return how many."""
    pruned = 0
    for one in ids:
        row, newest = draft.conversation(one), draft.newest_message(one)
        if row is None or row.last_updated_at >= before:
            continue
        if newest is None or newest.timestamp < before:
            draft.delete_conversation(one)
            pruned += 1
    return pruned
