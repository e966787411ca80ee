"""A conversation as a log in PostgreSQL, erasure and retention."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from jazzmine._sync.message_store.base import MessageStore
from jazzmine.backends.postgres import log_statements as log_sql
from jazzmine.backends.postgres.log_rows import (
    Append,
    append_parameters,
    appends_to_send,
    forked_ids,
    parameters_of_appends,
    refused_append,
    refused_fork,
)
from jazzmine.backends.postgres.rows import (
    CONVERSATIONS,
    MESSAGES,
    conversation_json,
    row_limit,
)
from jazzmine.backends.postgres.text import to_text
from jazzmine.deadline import Deadline
from jazzmine.errors import IntegrityError, NotFoundError, StoreUnavailableError
from jazzmine.records.base import Snapshot
from jazzmine.records.conversation_log import Erased
from jazzmine.records.log import AnyMessage
from jazzmine.records.messages import Conversation, Message

if TYPE_CHECKING:
    from jazzmine._sync.message_store.postgres_client import PostgresClient

__all__ = ["PostgresLog"]

# An append of more messages is sent alone, so that it does not delay others.
_LARGE = 20


class PostgresLog(MessageStore):
    """The hooks of a store in PostgreSQL that treat a conversation as a log, and its erasure.

    Args:
        client: what runs the statements.
    """

    def __init__(self, client: PostgresClient) -> None:
        super().__init__()
        self._client = client
        # When one of several fails, each is sent alone, and those that are stored are not.
        self._appends = client.batcher(self._append_all)

    def _list_newest(
        self, conversation_id: str, calls: bool, limit: int, after: str | None
    ) -> list[Message]:
        parameters: dict[str, object] = {
            "owner": to_text(conversation_id),
            "limit": row_limit(limit),
        }
        if after is not None:
            parameters["after"] = to_text(after)
        statement = log_sql.newest(limit, calls, after is not None)
        rows = self._client.rows(statement, parameters)
        return MESSAGES.page(rows, after, self._repairs)

    def _create_conversation(self, conversation: Snapshot[Conversation]) -> Conversation:
        parameters = {
            "conversation": conversation_json(conversation),
            "id": to_text(conversation.record.id),
        }
        deadline = self._client.deadline()
        while True:
            created, found = self._client.change(
                log_sql.CREATE_CONVERSATION, parameters, deadline=deadline
            )
            if created is not None:
                return conversation.record
            if found is not None:
                return CONVERSATIONS.record([found], self._repairs)

    def _append(
        self,
        conversation_id: str,
        messages: Sequence[Snapshot[Message]],
        expected_last: str | AnyMessage | None,
    ) -> list[Message]:
        append = Append(conversation_id, messages, expected_last)
        deadline = self._client.deadline()
        if len(messages) > _LARGE:
            self._append_all([append], deadline)
        else:
            self._appends.run(append, deadline)
        assert append.stored is not None
        return append.stored

    def _append_all(self, appends: Sequence[Append], deadline: Deadline) -> None:
        sent = appends_to_send(appends)
        if len(sent) == 1:
            self._append_one(sent[0], deadline)
        elif sent:
            self._append_to_each(sent, deadline)
        if not all(append.stored for append in appends):
            raise IntegrityError("some messages of these appends were not stored")

    def _append_one(self, append: Append, deadline: Deadline) -> None:
        floor, refusal = self._client.change(
            log_sql.APPEND, append_parameters(append), deadline=deadline
        )
        if floor is not None:
            append.is_stored_after(floor)
        else:
            assert refusal is not None
            append.stored = refused_append(json.loads(refusal), append, self._repairs)

    def _append_to_each(self, appends: Sequence[Append], deadline: Deadline) -> None:
        _, floors = self._client.change(
            log_sql.APPEND_TO_EACH, parameters_of_appends(appends), deadline=deadline
        )
        assert floors is not None
        for append, floor in zip(appends, json.loads(floors), strict=True):
            if floor is not None:
                append.is_stored_after(floor)

    def _pop(self, conversation_id: str) -> Message | None:
        parameters: dict[str, object] = {"owner": to_text(conversation_id), "readable": None}
        deadline = self._client.deadline()
        while True:
            deleted, newest = self._client.change(
                log_sql.POP, parameters, is_repeatable=False, deadline=deadline
            )
            if newest is None:
                if deleted is None:
                    return None
                raise StoreUnavailableError(
                    "the reply of PostgreSQL was lost, and a user's erasure has deleted the message"
                )
            message = MESSAGES.record([newest], self._repairs)
            if deleted is not None:
                return message
            # It may be one that cannot be read, so it is still stored; but it could be read.
            parameters["readable"] = to_text(MESSAGES.value([newest], "id"))

    def _rewind(self, conversation_id: str, after: str | None) -> int:
        parameters = {
            "owner": to_text(conversation_id),
            "after": None if after is None else to_text(after),
        }
        deleted, _ = self._client.change(log_sql.REWIND, parameters, is_repeatable=False)
        if deleted is None:
            raise NotFoundError(f"message {after!r} is no message of this conversation")
        return deleted

    def _fork(
        self, conversation_id: str, until: str | None, copy: Snapshot[Conversation], salt: UUID
    ) -> dict[str, str]:
        parameters = {
            "owner": to_text(conversation_id),
            "until": None if until is None else to_text(until),
            "conversation": conversation_json(copy),
            "salt": salt.hex,
        }
        forked, result = self._client.change(log_sql.FORK, parameters, is_repeatable=False)
        if result is None:
            raise StoreUnavailableError(
                "the reply of PostgreSQL was lost, and a user's erasure has deleted the copies' ids"
            )
        if forked is None:
            raise refused_fork(result, conversation_id, until, copy.record.id)
        return forked_ids(result)

    def _erase(self, user_id: str, limit: int) -> Erased:
        parameters = {"user": to_text(user_id), "limit": limit}
        must_repeat = True
        while must_repeat:
            _, result = self._client.change(log_sql.ERASE, parameters, is_repeatable=False)
            assert result is not None
            *counts, must_repeat = json.loads(result)
        erased = Erased(*counts)
        if not any(erased):
            self._client.erase_results(to_text(user_id))
        return erased

    def _iter_old(self, before: int, size: int) -> Iterator[list[str]]:
        parameters = {"before": before, "limit": size, "time": -(2**63), "seq": 0}
        while rows := self._client.rows(log_sql.OLD_CONVERSATIONS, parameters):
            _, parameters["time"], parameters["seq"] = rows[-1]
            yield [row[0] for row in rows]

    def _prune(self, ids: list[str], before: int, limit: int) -> tuple[int, int]:
        parameters = {"ids": ids, "before": before, "limit": limit}
        pruned, result = self._client.change(log_sql.PRUNE, parameters, is_repeatable=False)
        assert pruned is not None
        assert result is not None
        return pruned, int(result)
