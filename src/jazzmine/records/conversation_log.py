"""A conversation as a log: the messages that an append stores, and the ids of a copy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar
from uuid import NAMESPACE_OID, UUID, uuid5

from jazzmine.errors import ConflictError, IntegrityError, NotFoundError
from jazzmine.records.base import Snapshot
from jazzmine.records.log import ANY, AnyMessage, Nothing
from jazzmine.records.messages import Message
from jazzmine.records.rows import Row
from jazzmine.records.traces import TurnTrace

AnyRecord = TypeVar("AnyRecord", Message, TurnTrace)


class DeletedCounts(NamedTuple):
    """The numbers of records that one step of an erasure deleted."""

    conversations: int = 0
    messages: int = 0
    traces: int = 0

    def plus(self, other: DeletedCounts) -> DeletedCounts:
        """Return the sums of both."""
        return DeletedCounts(*map(sum, zip(self, other, strict=True)))


class Refusal(NamedTuple):
    """The state that made a back end refuse an append; nothing was written.

    Attributes:
        is_known: whether the conversation is stored.
        newest_id: the id of its newest message, flagged or not; None if it has none.
        stored: the rows of the stored messages with the given ids, of any conversation.
        replaced: whether `replace_after` is a message of the conversation, or was not given.
    """

    is_known: bool
    newest_id: str | None
    stored: Sequence[Row]
    replaced: bool = True


def require_one_conversation(
    conversation_id: str, messages: Sequence[Snapshot[Message]], trace: Snapshot[TurnTrace] | None
) -> None:
    """Raise `ValueError` unless messages and trace are of one conversation, and belong together."""
    ids: set[str] = set()
    for message in messages:
        record = message.record
        if record.conversation_id != conversation_id:
            raise ValueError(
                f"message {record.id!r} is of conversation {record.conversation_id!r},"
                f" not of {conversation_id!r}"
            )
        if record.id in ids:
            raise ValueError(f"two of the messages have the id {record.id!r}")
        ids.add(record.id)
    if trace is None:
        return
    if trace.record.message_id not in ids:
        raise ValueError(
            f"the trace belongs to message {trace.record.message_id!r}, which is not appended;"
            " store_turn_trace() stores that of a stored message"
        )
    if trace.record.conversation_id != conversation_id:
        raise ValueError(
            f"the trace is of conversation {trace.record.conversation_id!r},"
            f" not of {conversation_id!r}"
        )


def distinct(messages: Iterable[Snapshot[Message]]) -> list[Snapshot[Message]]:
    """Return one message for each id: the last one with it, in the place of the first.

    Raise `IntegrityError` for one id in two conversations.
    """
    chosen: dict[str, Snapshot[Message]] = {}
    for message in messages:
        record = message.record
        before = chosen.setdefault(record.id, message).record
        if before.conversation_id != record.conversation_id:
            raise IntegrityError(
                f"message {record.id!r} cannot be in conversation {before.conversation_id!r}"
                f" and in {record.conversation_id!r}"
            )
        chosen[record.id] = message
    return list(chosen.values())


def in_order(messages: Sequence[Snapshot[Message]]) -> list[Snapshot[Message]]:
    """Return messages with ascending timestamps: earlier ones are raised."""
    ordered: list[Snapshot[Message]] = []
    latest = messages[0].record.timestamp
    for message in messages:
        latest = max(latest, message.record.timestamp)
        ordered.append(not_before(latest, message))
    return ordered


def not_before(floor: int, message: Snapshot[Message]) -> Snapshot[Message]:
    """Return a message whose `timestamp` is raised to `floor` if it is earlier."""
    if message.record.timestamp >= floor:
        return message
    return Snapshot(message.record.model_copy(update={"timestamp": floor}))


def messages_stored_before(
    messages: Sequence[Snapshot[Message]],
    stored: Mapping[str, Message],
    refusal: Refusal,
    conversation_id: str,
    expected_last: str | AnyMessage | None,
    replace_after: str | Nothing | None,
) -> list[Message]:
    """Return the stored messages of a refused append that was done before.

    The `stored` records are those of the rows of the refusal, by their ids.

    Raises:
        ConflictError: another message than the expected one is the newest.
        IntegrityError: the conversation is not stored, an id is stored with another content, or
            some ids are stored and others are not.
        NotFoundError: `replace_after` is no message of the conversation.
    """
    if not refusal.is_known:
        raise unknown_conversation(conversation_id)
    given = [message.record for message in messages]
    differing = [
        message.id
        for message in given
        if message.id in stored and _content(stored[message.id]) != _content(message)
    ]
    if len(stored) == len(given) and not differing:
        return [stored[message.id] for message in given]
    # A message that is delivered twice may have got another answer meanwhile, with the same id.
    is_elsewhere = any(one.conversation_id != conversation_id for one in stored.values())
    if expected_last not in (ANY, refusal.newest_id) and not is_elsewhere:
        newest_id = refusal.newest_id
        newest = "it has none" if newest_id is None else f"that is {newest_id!r}"
        expected = "no message" if expected_last is None else repr(expected_last)
        raise ConflictError(
            f"the caller expected {expected} as the newest message of the conversation, but"
            f" {newest}: read it again",
            newest_id=newest_id,
        )
    if differing:
        raise IntegrityError(
            f"message {differing[0]!r} is stored already, with another content;"
            " append_messages() adds new messages, edit_message() changes one"
        )
    if stored:
        raise IntegrityError(
            f"only some of the messages are stored already: {', '.join(map(repr, stored))};"
            " repeat an append with the same messages, or append only new ones"
        )
    raise NotFoundError(f"message {replace_after!r} is no message of this conversation")


def _content(message: Message) -> str:
    # In JSON true and 1 differ. A back end may return keys in another order, and 0.0 for -0.0.
    fields = message.model_dump_json(exclude={"timestamp", "is_flagged"}, exclude_defaults=True)
    plain = json.loads(fields, parse_float=lambda number: float(number) + 0.0)
    return json.dumps(plain, sort_keys=True)


def unknown_conversation(conversation_id: str) -> IntegrityError:
    """Return the error of an append to a conversation that is not stored."""
    return IntegrityError(
        f"conversation {conversation_id!r} is not stored; store the conversation first"
    )


def unknown_after(after: str | None) -> NotFoundError:
    """Return the error of a page after a record that is not there."""
    return NotFoundError(
        f"after={after!r} is no record of this listing, or not any more: begin at its first page"
    )


def fork_salt(conversation_id: str) -> UUID:
    """Return the salt of the copies in a new conversation: repeating a fork gives the same ids."""
    return uuid5(NAMESPACE_OID, f"jazzmine:fork:{conversation_id}")


def merged(stored: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata with changed values; None removes a key."""
    kept = {key: value for key, value in stored.items() if key not in changes}
    return {**kept, **{key: value for key, value in changes.items() if value is not None}}


def forked_id(salt: UUID, source_id: str) -> str:
    """Return the id of the copy of a record; with one salt, it is always the same.

    A function of the PostgreSQL schema makes the same ids.
    """
    digest = sha256(f"{salt.hex}{source_id}".encode()).hexdigest()
    return str(UUID(f"{digest[:12]}8{digest[13:16]}8{digest[17:32]}"))


def forked(
    messages: Iterable[Message], traces: Iterable[TurnTrace], owner: str, salt: UUID
) -> tuple[dict[str, str], list[Message], list[TurnTrace]]:
    """Return the copies' ids by the messages' ids, and the copies for another conversation.

    Traces of other messages are left out; the others keep their order.
    """
    copies = {
        message.id: _moved(message, owner, id=forked_id(salt, message.id)) for message in messages
    }
    ids = {source: copy.id for source, copy in copies.items()}
    of_traces = [
        _moved(
            trace,
            owner,
            id=forked_id(salt, trace.id),
            message_id=ids[trace.message_id],
            copied_from=trace.id,
        )
        for trace in traces
        if trace.message_id in ids
    ]
    return ids, list(copies.values()), of_traces


def _moved(record: AnyRecord, owner: str, **changes: str) -> AnyRecord:
    return record.model_copy(update={**changes, "conversation_id": owner})
