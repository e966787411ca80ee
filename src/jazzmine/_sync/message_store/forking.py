"""Copy an encrypted conversation: each record is decrypted, and encrypted for its new place."""

from __future__ import annotations

from jazzmine._sync.message_store.records import StoredRecords
from jazzmine._compat.concurrency import sync_run_blocking as run_blocking
from jazzmine.encryption.records import RecordCodec
from jazzmine.errors import ConflictError, NotFoundError
from jazzmine.records.base import Snapshot
from jazzmine.records.conversation_log import forked
from jazzmine.records.hook_arguments import Fork, MessagePage, Turn
from jazzmine.records.rows import body_of


def fork_decrypted(store: StoredRecords, codec: RecordCodec, fork: Fork) -> dict[str, str]:
    """Store copies of a conversation's messages and traces; return the ids, as the hook `fork`.

    The new conversation is stored first, then all its messages and traces in one step. If that
    fails, the new conversation is deleted.
    """
    conversation_id, until, copy, salt = fork
    backend, owner = store.backend, copy.record.id
    if backend.get_conversation(conversation_id) is None:
        raise NotFoundError(f"conversation {conversation_id!r} is not stored")
    rows = backend.list_messages(MessagePage("conversation_id", conversation_id, None, None))
    messages = store._decoded(store._messages, rows, conversation_id)
    if until is not None:
        sources = [message.id for message in messages]
        if until not in sources:
            raise NotFoundError(f"message {until!r} is no message of this conversation")
        del messages[sources.index(until) + 1 :]
    rows = backend.list_conversation_traces(conversation_id)
    traces = store._decoded(store._traces, rows, conversation_id)
    ids, copies, of_copies = forked(messages, traces, owner, salt)

    def encrypted() -> Turn:
        return Turn(
            (),
            [codec.encrypted(Snapshot(message)) for message in copies],
            [codec.encrypted(Snapshot(trace)) for trace in of_copies],
        )

    given = codec.encrypted(copy)
    row = backend.create_conversation(given)
    if row is not None:
        # A back end may return what a repeated request of this call has stored itself: nothing is
        # encrypted to the same text twice.
        stored = body_of(row)
        if stored is None or stored.get("metadata") != given.record.metadata:
            raise ConflictError(f"conversation {owner!r} is stored already; fork to a new one")
    try:
        if copies:
            backend.store(run_blocking(encrypted))
    except BaseException:
        backend.delete_conversation(owner)
        raise
    return ids
