"""The message store in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from jazzmine._async.clients.postgres import new_client
from jazzmine._async.message_store.backend import Batch, TraceKey
from jazzmine._async.message_store.building import built
from jazzmine._async.message_store.postgres_search import PostgresSearch
from jazzmine._async.message_store.store import MessageStore
from jazzmine.backends.postgres import pages
from jazzmine.backends.postgres import statements as sql
from jazzmine.backends.postgres import trace_statements as trace_sql
from jazzmine.backends.postgres.rows import (
    append_parameters,
    page_of,
    pruned_parameter,
    rewrite_parameters,
    row_values,
    store_parameters,
    stored_rows,
    summaries,
    whole_json,
)
from jazzmine.backends.postgres.schema import MESSAGE_TABLES
from jazzmine.backends.postgres.text import from_text, json_array, json_text, to_json_text, to_text
from jazzmine.config import PostgresConfig
from jazzmine.encryption.records import record_codec
from jazzmine.errors import ConflictError, IntegrityError, NotFoundError
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.conversation_log import DeletedCounts, Refusal
from jazzmine.records.hook_arguments import (
    Append,
    ConversationPage,
    Fork,
    MessagePage,
    NewestPage,
    TracePage,
    Turn,
)
from jazzmine.records.messages import Conversation
from jazzmine.records.rows import Row
from jazzmine.records.types import MAX_INT
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

if TYPE_CHECKING:
    from jazzmine._async.clients.postgres.client import PostgresClient

_BEFORE_ALL = -(2**63)


class PostgresMessageStore(MessageStore):
    """A message store in PostgreSQL 12 or newer.

    Each call is one statement, in one round trip. The store has its own pool of connections, if
    `open_stores` has not given it one. A connection that was lost is replaced, and its call is
    repeated until `timeout`.
    """

    def __init__(self, config: PostgresConfig, client: PostgresClient | None = None) -> None:
        PostgresConfig.require(config)
        client = client or new_client(config, MESSAGE_TABLES)
        super().__init__(PostgresBackend(config, client), record_codec(config))


class PostgresBackend(PostgresSearch):
    """The hooks of the message store in PostgreSQL."""

    system_name = "postgresql"

    # Writes

    async def store(self, turn: Turn) -> None:
        conversations, messages, traces = turn
        if len(conversations) + len(messages) + len(traces) > 1:
            parameters = await built(store_parameters, turn, messages, self._analyser)
            await self.client.run(sql.STORE, parameters)
            return
        given: Snapshot[Any] = (conversations or messages or traces)[0]
        table = "conversations" if conversations else "messages" if messages else "turn_traces"
        if self._analyser is None or not messages:
            values = row_values(table, given, None)
        else:
            build = partial(row_values, table)
            values = await built(build, given, messages, self._analyser)
        if not await self.client.run(sql.STORE_ONE[table], values):
            record: Any = given.record
            reason = sql.REFUSALS[table]
            owner = record.agent_id if table == "conversations" else record.conversation_id
            raise IntegrityError(f"{record.id!r} {reason} {owner!r}; nothing was written")

    async def flag_message(self, message_id: str, flagged: bool) -> bool:
        parameters = {"id": to_text(message_id), "flagged": flagged}
        return bool(await self.client.run(sql.FLAG_MESSAGE, parameters))

    async def delete_message(self, message_id: str) -> bool:
        return bool(await self.client.run(sql.DELETE_MESSAGE, {"id": to_text(message_id)}))

    async def delete_conversation(self, conversation_id: str) -> bool:
        parameters = {"id": to_text(conversation_id)}
        return bool(await self.client.run(sql.DELETE_CONVERSATION, parameters))

    async def create_conversation(self, conversation: Snapshot[Conversation]) -> Row | None:
        parameters = {
            "id": to_text(conversation.record.id),
            "conversations": json_array([whole_json(conversation)]),
        }
        rows = await self.client.run(sql.CREATE_CONVERSATION, parameters)
        return None if rows[0][1] is None else stored_rows(rows)[0]

    async def rewrite(
        self,
        kind: RecordKind,
        ids: Sequence[str],
        change: Callable[[Row], Snapshot[Any] | None],
    ) -> Sequence[str]:
        left, done = list(map(to_text, ids)), list[str]()
        while left:
            rows = await self.client.run(sql.VERSIONS[kind], {"ids": left})
            outcomes = zip(rows, map(change, stored_rows(rows)), strict=True)
            changed = [(row[0], row[2], new) for row, new in outcomes if new is not None]
            if not changed:
                break
            parameters = rewrite_parameters(changed, kind, self._analyser)
            written = {row[0] for row in await self.client.run(sql.REWRITE[kind], parameters)}
            done += map(from_text, written)
            left = [record_id for record_id, _, _ in changed if record_id not in written]
        return done

    # A conversation as a log

    async def append(self, given: Append) -> int | Refusal:
        parameters = await built(append_parameters, given, given.messages, self._analyser)
        while True:
            rows = await self.client.run(sql.APPEND, parameters)
            is_fine, last_timestamp, is_known, newest, count, is_replaced = rows[0]
            if is_fine:
                return int(last_timestamp)
            stored: Sequence[Row] = ()
            if count:
                found = await self.client.run(sql.MESSAGES_BY_IDS, {"ids": parameters["ids"]})
                stored = stored_rows(found)
            if len(stored) == count:  # otherwise some were deleted since
                return Refusal(is_known, newest and from_text(newest), stored, is_replaced)

    async def pop(self, conversation_id: str, check: Callable[[Row], object]) -> Row | None:
        owner = to_text(conversation_id)
        while rows := await self.client.run(sql.NEWEST_MESSAGE, {"owner": owner}):
            (row,) = stored_rows(rows)
            check(row)  # one that cannot be read stays stored
            parameters = {"owner": owner, "id": rows[0][0], "version": rows[0][2]}
            if (await self.client.run(sql.POP, parameters, repeats=False))[0][0]:
                return row
        return None

    async def rewind(self, conversation_id: str, after: str | None) -> int:
        parameters = {
            "owner": to_text(conversation_id),
            "after": None if after is None else to_text(after),
        }
        deleted = (await self.client.run(sql.REWIND, parameters))[0][0]
        if deleted is None:
            raise NotFoundError(f"message {after!r} is no message of this conversation")
        return int(deleted)

    async def fork(self, fork: Fork) -> dict[str, str]:
        copied = fork.copy.record.id
        parameters = {
            "owner": to_text(fork.conversation_id),
            "until": None if fork.until is None else to_text(fork.until),
            "copy": to_json_text(whole_json(fork.copy)),
            "salt": fork.salt.hex,
        }
        answer = (await self.client.run(sql.FORK, parameters))[0][0]
        if answer == "conversation":
            raise NotFoundError(f"conversation {fork.conversation_id!r} is not stored")
        if answer == "message":
            raise NotFoundError(f"message {fork.until!r} is no message of this conversation")
        if answer == "copy":
            raise ConflictError(f"conversation {copied!r} is stored already; fork to a new one")
        return {from_text(source): forked for source, forked in json.loads(answer).items()}

    # Erasure and retention

    async def newest_sequence(self) -> Any:
        return (await self.client.run(sql.NEWEST_NUMBERS))[0][0]

    async def erase(self, user_id: str, limit: int, newest: Any) -> DeletedCounts:
        parameters = {"user": to_text(user_id), "limit": limit, "newest": newest}
        return DeletedCounts(*(await self.client.run(sql.ERASE, parameters))[0])

    async def move_user(self, from_user_id: str, to_user_id: str) -> int:
        parameters = {"old": to_text(from_user_id), "new": to_text(to_user_id)}
        return int((await self.client.run(sql.MOVE_USER, parameters))[0][0])

    async def prune(self, conversations: Sequence[Row], before: int, limit: int) -> tuple[int, int]:
        given = pruned_parameter(conversations)
        parameters = {"given": given, "before": before, "limit": limit}
        pruned, done = (await self.client.run(sql.PRUNE, parameters))[0]
        return pruned, done

    async def iter_old(
        self, before: int, size: int, user_id: str | None = None
    ) -> AsyncIterator[Sequence[Row]]:
        parameters: dict[str, object] = {
            "before": before,
            "limit": size,
            "user": None if user_id is None else to_text(user_id),
            "time": _BEFORE_ALL,
            "seq": 0,
        }
        while rows := await self.client.run(sql.OLD_CONVERSATIONS, parameters):
            _, _, parameters["time"], parameters["seq"] = rows[-1]
            yield stored_rows(rows)

    # Reads

    async def get_conversation(self, conversation_id: str) -> Row | None:
        return await self._one(sql.CONVERSATION, conversation_id)

    async def get_message(self, message_id: str) -> Row | None:
        return await self._one(sql.MESSAGE, message_id)

    async def get_trace(self, by: TraceKey, key: str) -> Row | None:
        return await self._one(sql.TRACE if by == "id" else sql.TRACE_OF_MESSAGE, key)

    async def get_messages(self, message_ids: Sequence[str]) -> Sequence[Row]:
        ids = list(map(to_text, message_ids))
        return stored_rows(await self.client.run(sql.MESSAGES_BY_IDS, {"ids": ids}))

    async def list_conversations(self, page: ConversationPage) -> Sequence[Row]:
        by, owner, where, limit, after, user_id = page
        parameters = _page(owner, after, user_id)
        of_user = user_id is not None
        statement = pages.conversations_page(by, limit, after is not None, bool(where), of_user)
        # How rare the wanted values are decides which index is the best.
        prepare = False if where or (by and of_user) else None
        if where:
            parameters["where"] = json_text(where)
        return page_of(await self.client.run(statement, parameters, prepare=prepare), after)

    async def list_messages(self, page: MessagePage) -> Sequence[Row]:
        by, owner, limit, after = page
        statement = pages.messages_page(by, limit, after is not None)
        return page_of(await self.client.run(statement, _page(owner, after)), after)

    async def next_messages(self, conversation_id: str, cursor: Any, size: int) -> Batch:
        timestamp, seq = cursor or (-(2**63), 0)
        page = {"owner": to_text(conversation_id), "timestamp": timestamp, "seq": seq}
        rows = await self.client.run(pages.next_messages(size), page)
        return Batch(stored_rows(rows), rows[-1][2:] if rows else cursor)

    async def list_newest(self, page: NewestPage) -> Sequence[Row]:
        owner, flagged, limit, after = page
        statement = pages.newest(limit, flagged, after is not None)
        return page_of(await self.client.run(statement, _page(owner, after)), after)

    async def count_messages(self, conversation_ids: Sequence[str]) -> dict[str, int]:
        parameters = {"ids": [to_text(each) for each in conversation_ids]}
        rows = await self.client.run(sql.MESSAGE_COUNTS, parameters)
        return {from_text(conversation_id): count for conversation_id, count in rows}

    async def list_conversation_traces(self, conversation_id: str) -> Sequence[Row]:
        parameters = {"owner": to_text(conversation_id)}
        return stored_rows(await self.client.run(sql.TRACES_OF_CONVERSATION, parameters))

    async def find_traces(self, page: TracePage) -> Sequence[Row]:
        where, limit, after, offset = page
        condition, parameters = trace_sql.filter_condition(where)
        statement = trace_sql.find_traces(condition, after is not None, limit, offset)
        # Which index is the best depends on the values, but for an agent's traces.
        prepare = None if condition == trace_sql.OF_AGENT else False
        parameters["offset"] = min(offset, MAX_INT)
        if after is not None:
            parameters["after"] = to_text(after)
        return page_of(await self.client.run(statement, parameters, prepare=prepare), after)

    async def summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        condition, parameters = trace_sql.filter_condition(where)
        statement = trace_sql.summarize(condition, by)
        return summaries(await self.client.run(statement, parameters, prepare=False))

    async def iter_stored(
        self, kinds: Sequence[RecordKind], size: int
    ) -> AsyncIterator[tuple[RecordKind, Sequence[Row]]]:
        statements = [sql.ALL_STORED[kind] for kind in kinds]
        async for number, rows in self.client.stream(statements, size):
            yield kinds[number], stored_rows(rows)

    async def _one(self, statement: str, key: str) -> Row | None:
        rows = await self.client.run(statement, {"id": to_text(key)})
        return stored_rows(rows)[0] if rows else None


def _page(owner: str, after: str | None, user_id: str | None = None) -> dict[str, object]:
    page: dict[str, object] = {"owner": to_text(owner)}
    if after is not None:
        page["after"] = to_text(after)
    if user_id is not None:
        page["user_id"] = to_text(user_id)
    return page
