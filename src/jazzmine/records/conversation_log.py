"""What a conversation as a log consists of: what an append stores, and the ids of a copy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar
from uuid import UUID, uuid5

from jazzmine.errors import ConflictError, IntegrityError
from jazzmine.records.log import ANY, AnyMessage
from jazzmine.records.messages import Message
from jazzmine.records.traces import TurnTrace

__all__ = [
    "Erased",
    "Newest",
    "changed_meanwhile",
    "forked",
    "forked_id",
    "messages_to_append",
    "stored_differently",
    "stored_in_part",
    "unknown_conversation",
]


AnyRecord = TypeVar("AnyRecord", Message, TurnTrace)


class Erased(NamedTuple):
    """How many records of each kind one step of an erasure deleted."""

    conversations: int = 0
    messages: int = 0
    traces: int = 0

    def plus(self, other: Erased) -> Erased:
        """Return the sums of both."""
        return Erased(*map(sum, zip(self, other, strict=True)))


class Newest(NamedTuple):
    """The newest message of a conversation, flagged or not."""

    id: str
    timestamp: int


def messages_to_append(
    messages: Sequence[Message],
    stored: Mapping[str, Message],
    newest: Newest | None,
    expected_last: str | AnyMessage | None,
) -> list[Message]:
    """Return the messages that an append has to store, none if all of them are stored already.

    Args:
        messages: at least one, each id once.
        stored: those of their ids that are stored, in whatever conversation.
        newest: the newest message of the conversation, None if it has none.
        expected_last: as in `append_messages`.

    Returns:
        Copies with ascending timestamps, none earlier than that of the newest message.

    Raises:
        IntegrityError: an id is stored with another content, or some ids are stored and others
            are not.
        ConflictError: another message than the expected one is the newest.
    """
    for message in messages:
        if message.id in stored and not _same_content(stored[message.id], message):
            raise stored_differently(message.id)
    if stored:
        if len(stored) < len(messages):
            raise stored_in_part(stored)
        return []
    newest_id = None if newest is None else newest.id
    if expected_last is not ANY and expected_last != newest_id:
        raise changed_meanwhile(expected_last, newest_id)
    latest = messages[0].timestamp if newest is None else newest.timestamp
    appended: list[Message] = []
    for message in messages:
        latest = max(latest, message.timestamp)
        appended.append(message.model_copy(update={"timestamp": latest}))
    return appended


def _same_content(stored: Message, given: Message) -> bool:
    return _content(stored) == _content(given)


def _content(message: Message) -> str:
    # As JSON, in which true and 1 differ; a back end may return an object's keys in another order,
    # and a default for a value that is equal to it (0.0 for -0.0).
    fields = message.model_dump(
        mode="json", exclude={"timestamp", "is_flagged"}, exclude_defaults=True
    )
    return json.dumps(fields, sort_keys=True)


def unknown_conversation(conversation_id: str) -> IntegrityError:
    """Return the error of an append to a conversation that is not stored."""
    return IntegrityError(
        f"conversation {conversation_id!r} is not stored; store the conversation first"
    )


def stored_differently(message_id: str) -> IntegrityError:
    """Return the error of an append of an id that is stored with another content."""
    return IntegrityError(
        f"message {message_id!r} is stored already, with another content;"
        " append_messages() adds new messages, update_message() changes one"
    )


def stored_in_part(message_ids: Mapping[str, object] | Sequence[str]) -> IntegrityError:
    """Return the error of an append of which some ids are stored already and some are not."""
    return IntegrityError(
        f"only some of the messages are stored already: {', '.join(map(repr, message_ids))};"
        " repeat an append with the same messages"
    )


def changed_meanwhile(expected_last: str | None, newest_id: str | None) -> ConflictError:
    """Return the error of an append that expects another message as the newest."""
    found = "it has none" if newest_id is None else f"that is {newest_id!r}"
    expected = "no message" if expected_last is None else f"{expected_last!r} as the newest message"
    return ConflictError(
        f"the caller expected {expected} of the conversation, but {found}: read it again",
        newest_id=newest_id,
    )


def forked_id(salt: UUID, source_id: str) -> str:
    """Return the id of the copy of a record; with one salt, it is always the same."""
    return str(uuid5(salt, source_id))


def forked(
    messages: Iterable[Message], traces: Iterable[TurnTrace], owner: str, salt: UUID
) -> tuple[dict[str, str], list[Message], list[TurnTrace]]:
    """Return copies of messages and of their traces for another conversation.

    Args:
        messages: the messages to copy.
        traces: in the order of the copies; those of other messages are left out.
        owner: the id of the other conversation.
        salt: as in `forked_id`.

    Returns:
        The copies' ids by the messages' ids, and the copies.
    """
    copies = {one.id: _moved(one, owner, id=forked_id(salt, one.id)) for one in messages}
    ids = {source: copy.id for source, copy in copies.items()}
    of_traces = [
        _moved(one, owner, id=forked_id(salt, one.id), message_id=ids[one.message_id])
        for one in traces
        if one.message_id in ids
    ]
    return ids, list(copies.values()), of_traces


def _moved(record: AnyRecord, owner: str, **changes: str) -> AnyRecord:
    return record.model_copy(update={**changes, "conversation_id": owner})
