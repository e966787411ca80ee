"""Convert what the writes of a conversation as a log take and return."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jazzmine.backends.postgres.rows import MESSAGES, messages_json
from jazzmine.backends.postgres.text import from_text, to_text
from jazzmine.errors import ConflictError, NotFoundError
from jazzmine.records.base import Snapshot
from jazzmine.records.conversation_log import Newest, messages_to_append, unknown_conversation
from jazzmine.records.log import ANY, AnyMessage
from jazzmine.records.messages import Message
from jazzmine.records.repair import Repairs

__all__ = [
    "Append",
    "append_parameters",
    "appends_to_send",
    "forked_ids",
    "parameters_of_appends",
    "refused_append",
    "refused_fork",
]


class Append:
    """A call that appends messages.

    Args:
        conversation_id: the conversation of the messages.
        messages: at least one, each id once.
        expected_last: as it was given.

    Attributes:
        given: the messages with ascending timestamps.
        stored: the messages as they are stored, or None until they are.
    """

    def __init__(
        self,
        conversation_id: str,
        messages: Sequence[Snapshot[Message]],
        expected_last: str | AnyMessage | None,
    ) -> None:
        self.conversation_id = conversation_id
        self.messages: list[Message] = [message.record for message in messages]
        self.expected_last = expected_last
        self.given: list[Message] = _not_before(self.messages[0].timestamp, self.messages)
        self.stored: list[Message] | None = None

    def is_stored_after(self, floor: int) -> None:
        """Note that the messages were stored after one with the timestamp `floor`."""
        self.stored = _not_before(floor, self.given)


def _not_before(latest: int, messages: Sequence[Message]) -> list[Message]:
    """Return messages, each raised to the timestamp of the one before, the first to `latest`."""
    raised: list[Message] = []
    for message in messages:
        latest = max(latest, message.timestamp)
        is_later = message.timestamp == latest
        raised.append(message if is_later else message.model_copy(update={"timestamp": latest}))
    return raised


def appends_to_send(appends: Sequence[Append]) -> list[Append]:
    """Return those that are not stored yet, as far as no conversation and no id is in two."""
    seen: set[tuple[str, str]] = set()
    chosen: list[Append] = []
    for append in appends:
        of_append = {("message", message.id) for message in append.given}
        of_append.add(("conversation", append.conversation_id))
        if append.stored is None and seen.isdisjoint(of_append):
            seen |= of_append
            chosen.append(append)
    return chosen


def append_parameters(append: Append) -> dict[str, object]:
    """Return the parameters of one append."""
    last = append.expected_last
    return {
        "owner": to_text(append.conversation_id),
        "ids": [to_text(message.id) for message in append.given],
        "is_any": last is ANY,
        "expected_last": to_text(last) if isinstance(last, str) else None,
        "latest": append.given[-1].timestamp,
        "messages": messages_json(append.given),
    }


def parameters_of_appends(appends: Sequence[Append]) -> dict[str, object]:
    """Return the parameters of appends to different conversations.

    The type of all lists is text[]: psycopg would choose that of a list of integers by the largest
    one, that of a list by whether it has an element that is not None, and the statement would be
    prepared for each combination.
    """
    messages = [message for append in appends for message in append.given]
    expected = [append.expected_last for append in appends]
    return {
        "owners": [to_text(append.conversation_id) for append in appends],
        "sizes": [str(len(append.given)) for append in appends],
        "ids": [to_text(message.id) for message in messages],
        "is_any": [str(last is ANY) for last in expected],
        "expected_last": [to_text(last) if isinstance(last, str) else "" for last in expected],
        "latest": [str(append.given[-1].timestamp) for append in appends],
        "messages": messages_json(messages),
        "appends": [str(n) for n, append in enumerate(appends, 1) for _ in append.given],
    }


def refused_append(refusal: Mapping[str, Any], append: Append, repairs: Repairs) -> list[Message]:
    """Return the messages if all are stored already; raises the error of the append otherwise.

    Args:
        refusal: the result of the statement.
        append: the only one of the statement.
        repairs: reads the stored messages.
    """
    found = refusal["refusal"]
    if not found["is_known"]:
        raise unknown_conversation(append.conversation_id)
    records = [MESSAGES.record([row], repairs) for row in refusal["stored"]]
    stored = {record.id: record for record in records}
    newest = None
    if found["newest_id"] is not None:
        newest = Newest(from_text(found["newest_id"]), found["newest_timestamp"])
    left = messages_to_append(append.messages, stored, newest, append.expected_last)
    assert not left
    return [stored[message.id] for message in append.messages]


def refused_fork(
    reason: str, conversation_id: str, until: str | None, copy_id: str
) -> NotFoundError | ConflictError:
    """Return the error of a fork.

    Args:
        reason: the result of the fork.
        conversation_id: the conversation to copy.
        until: the id of the last message to copy.
        copy_id: the id of the new conversation.
    """
    if reason == "no conversation":
        return NotFoundError(f"conversation {conversation_id!r} is not stored")
    if reason == "no message":
        return NotFoundError(f"message {until!r} is no message of this conversation")
    return ConflictError(f"conversation {copy_id!r} is stored already; fork to a new one")


def forked_ids(result: str) -> dict[str, str]:
    """Return the ids of the copies by those of the messages, in their order."""
    return {from_text(one): copy for one, copy in json.loads(result).items()}
