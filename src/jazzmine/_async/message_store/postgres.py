"""The message store in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from jazzmine._async.message_store.hooks import ConversationOwner, MessageOwner, TraceKey
from jazzmine._async.message_store.postgres_log import PostgresLog
from jazzmine.backends.postgres import statements as sql
from jazzmine.backends.postgres import trace_statements as trace_sql
from jazzmine.backends.postgres.rows import (
    CONVERSATIONS,
    MESSAGES,
    TRACES,
    RecordRows,
    are_finite,
    conversation_json,
    filter_parameters,
    many_json,
    message_parameters,
    row_limit,
    summaries,
    trace_json,
)
from jazzmine.backends.postgres.schema import MESSAGES as MESSAGES_AND_TRACES
from jazzmine.backends.postgres.text import to_text
from jazzmine.config import PostgresConfig
from jazzmine.deadline import Deadline
from jazzmine.errors import StoreUnavailableError
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

if TYPE_CHECKING:
    from jazzmine._async.message_store.postgres_client import PostgresClient

__all__ = ["PostgresMessageStore"]


class PostgresMessageStore(PostgresLog):
    """A message store in PostgreSQL 12 or newer.

    Each call is one statement, in one round trip. The store has its own pool of connections. A
    connection that was lost is replaced, and its call is repeated until `timeout`.
    """

    _system_name = "postgresql"

    def __init__(self, config: PostgresConfig) -> None:
        PostgresConfig.require(config)
        super().__init__(_open_client(config))
        self._single_messages = self._client.batcher(self._store_all)

    def _after_fork(self) -> None:
        self._client.after_fork()

    async def _pending(self) -> list[str]:
        return await self._client.pending()

    async def _open(self) -> None:
        await self._client.open()

    async def _close(self) -> None:
        await self._client.close()

    async def _ping(self) -> None:
        await self._client.rows(sql.PING)

    # Conversations

    async def _store_conversation(self, conversation: Snapshot[Conversation]) -> None:
        parameters = {"conversation": conversation_json(conversation)}
        await self._client.write(sql.STORE_CONVERSATION, parameters)

    async def _get_conversation(self, conversation_id: str) -> Conversation | None:
        rows = await self._client.rows(sql.CONVERSATION, {"id": to_text(conversation_id)})
        return CONVERSATIONS.record(rows[0], self._repairs) if rows else None

    async def _list_conversations(
        self, by: ConversationOwner, owner: str, limit: int | None, after: str | None
    ) -> list[Conversation]:
        statement = sql.conversations_page(by, limit, after is not None)
        rows = await self._client.rows(statement, _page(owner, limit, after))
        return CONVERSATIONS.page(rows, after, self._repairs)

    async def _delete_conversation(self, conversation_id: str) -> bool:
        parameters = {"id": to_text(conversation_id)}
        return await self._client.count(sql.DELETE_CONVERSATION, parameters) > 0

    # Messages

    async def _store_messages(self, messages: Sequence[Snapshot[Message]]) -> None:
        if len(messages) == 1:
            await self._single_messages.run(messages[0], self._client.deadline())
        else:
            await self._store_all(messages)

    async def _store_all(
        self, messages: Sequence[Snapshot[Message]], deadline: Deadline | None = None
    ) -> None:
        statement = sql.STORE_MESSAGE if len(messages) == 1 else sql.STORE_MESSAGES
        await self._client.write(statement, message_parameters(messages), deadline=deadline)

    async def _get_message(self, message_id: str) -> Message | None:
        rows = await self._client.rows(sql.MESSAGE, {"id": to_text(message_id)})
        return MESSAGES.record(rows[0], self._repairs) if rows else None

    async def _get_messages(self, message_ids: Sequence[str]) -> list[Message]:
        ids = list(map(to_text, message_ids))
        rows = await self._client.rows(sql.MESSAGES_BY_IDS, {"ids": ids})
        return MESSAGES.records(rows, self._repairs)

    async def _list_messages(
        self, by: MessageOwner, owner: str, limit: int | None, after: str | None
    ) -> list[Message]:
        statement = sql.messages_page(by, limit, after is not None)
        rows = await self._client.rows(statement, _page(owner, limit, after))
        return MESSAGES.page(rows, after, self._repairs)

    async def _iter_batches(self, conversation_id: str, size: int) -> AsyncIterator[list[Message]]:
        # The cursor is kept: the message may be deleted before the next batch.
        cursor: dict[str, object] = {"timestamp": -(2**63), "seq": 0}
        owner, limit = to_text(conversation_id), row_limit(size)
        while True:
            parameters = {"owner": owner, "limit": limit, **cursor}
            rows = await self._client.rows(sql.next_messages(size), parameters)
            if not rows:
                return
            messages = MESSAGES.records(rows, self._repairs)
            cursor = {"timestamp": MESSAGES.value(rows[-1], "timestamp"), "seq": rows[-1][-1]}
            yield messages

    async def _delete_message(self, message_id: str) -> bool:
        return await self._client.count(sql.DELETE_MESSAGE, {"id": to_text(message_id)}) > 0

    async def _flag_message(self, message_id: str, flagged: bool) -> bool:
        parameters = {"id": to_text(message_id), "flagged": flagged}
        return await self._client.count(sql.FLAG_MESSAGE, parameters) > 0

    # Traces

    async def _store_trace(self, trace: Snapshot[TurnTrace]) -> None:
        await self._client.write(sql.STORE_TRACE, {"trace": trace_json(trace)})

    async def _get_trace(self, by: TraceKey, key: str) -> TurnTrace | None:
        statement = sql.TRACE if by == "id" else sql.TRACE_OF_MESSAGE
        rows = await self._client.rows(statement, {"id": to_text(key)})
        return TRACES.record(rows[0], self._repairs) if rows else None

    async def _list_conversation_traces(self, conversation_id: str) -> list[TurnTrace]:
        parameters = {"owner": to_text(conversation_id)}
        rows = await self._client.rows(sql.TRACES_OF_CONVERSATION, parameters)
        return TRACES.records(rows, self._repairs)

    async def _list_agent_traces(self, agent_id: str, limit: int, offset: int) -> list[TurnTrace]:
        parameters = {
            "owner": to_text(agent_id),
            "limit": row_limit(limit),
            "offset": row_limit(offset),
        }
        rows = await self._client.rows(sql.traces_of_agent(limit, offset), parameters)
        return TRACES.records(rows, self._repairs)

    async def _store_turn(
        self,
        conversation: Snapshot[Conversation] | None,
        messages: Sequence[Snapshot[Message]],
        trace: Snapshot[TurnTrace] | None,
    ) -> None:
        statement = sql.store_turn(conversation is not None, bool(messages), trace is not None)
        parameters: dict[str, object] = {}
        if conversation is not None:
            parameters["conversation"] = conversation_json(conversation)
        if messages:
            parameters.update(message_parameters(messages, conversation))
        if trace is not None:
            parameters["trace"] = trace_json(trace)
        await self._client.write(statement, parameters)

    async def _find_traces(
        self, where: TraceFilter, limit: int, after: str | None
    ) -> list[TurnTrace]:
        conditions, parameters = filter_parameters(where)
        statement = trace_sql.find_traces(conditions, after is not None, limit)
        prepare = None if trace_sql.is_planned_once(conditions) else False
        parameters["limit"] = row_limit(limit)
        if after is not None:
            parameters["after"] = to_text(after)
        rows = await self._client.rows(statement, parameters, prepare=prepare)
        return TRACES.page(rows, after, self._repairs)

    async def _summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        from jazzmine.backends.postgres.errors import is_out_of_range

        conditions, parameters = filter_parameters(where)
        statement = trace_sql.summarize(conditions, by)
        try:
            rows = await self._client.rows(statement, parameters, prepare=False)
            if are_finite(rows):
                return summaries(rows)
        except StoreUnavailableError as error:
            if not is_out_of_range(error):
                raise
        lenient = trace_sql.summarize(conditions, by, lenient=True)
        return summaries(await self._client.rows(lenient, parameters, prepare=False))

    # All records

    async def _list_all_conversations(
        self, limit: int | None, after: str | None
    ) -> list[Conversation]:
        statement = sql.conversations_page(None, limit, after is not None)
        rows = await self._client.rows(statement, _page("", limit, after))
        return CONVERSATIONS.page(rows, after, self._repairs)

    async def _iter_stored(self, kind: RecordKind, size: int) -> AsyncIterator[list[Any]]:
        tables: dict[RecordKind, RecordRows[Any]] = {
            "conversations": CONVERSATIONS,
            "messages": MESSAGES,
            "traces": TRACES,
        }
        async for rows in self._client.stream(sql.ALL_STORED[kind], size):
            yield tables[kind].records(rows, self._repairs)

    async def _store_many(
        self,
        conversations: Sequence[Snapshot[Conversation]],
        messages: Sequence[Snapshot[Message]],
        traces: Sequence[Snapshot[TurnTrace]],
    ) -> None:
        if conversations:
            parameters = {"conversations": many_json(conversations)}
            await self._client.write(sql.STORE_CONVERSATIONS, parameters)
        if messages:
            await self._store_all(messages)
        if traces:
            await self._client.write(sql.STORE_TRACES, {"traces": many_json(traces)})


def _page(owner: str, limit: int | None, after: str | None) -> dict[str, object]:
    page: dict[str, object] = {"owner": to_text(owner), "limit": row_limit(limit)}
    if after is not None:
        page["after"] = to_text(after)
    return page


def _open_client(config: PostgresConfig) -> PostgresClient:
    try:
        from jazzmine._async.message_store.postgres_client import PostgresClient
    except ImportError as error:
        raise ImportError(
            "PostgreSQL needs its driver: pip install 'jazzmine[postgres]'"
        ) from error
    return PostgresClient(config, MESSAGES_AND_TRACES)
