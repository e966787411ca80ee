"""The back end of an encrypted message store, which wraps another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from jazzmine._async.message_store.backend import (
    Batch,
    MessageBackend,
    TraceKey,
)
from jazzmine._compat.async_concurrency import run_blocking
from jazzmine.config import BackendConfig
from jazzmine.encryption.found import KeysFound
from jazzmine.encryption.records import KINDS, RecordSeal, require_readable
from jazzmine.errors import ConfigurationError, ConflictError, DecryptionError, NotFoundError
from jazzmine.records.base import Record, RecordKind, Snapshot
from jazzmine.records.conversation_log import DeletedCounts, Refusal, forked
from jazzmine.records.hook_arguments import (
    Append,
    ConversationPage,
    Fork,
    MessagePage,
    NewestPage,
    TracePage,
    Turn,
)
from jazzmine.records.json_values import contains
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.rows import Row, RowDecoder, are_many, row_id
from jazzmine.records.traces import TurnTrace
from jazzmine.records.unreadable import Unreadable, reasons_of
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

__all__ = ["SealedMessages", "sealed_messages"]

AnyRecord = TypeVar("AnyRecord", bound=Record)

# So many records are sealed anew in a step: others that write wait for some 10 ms.
_RESEALED_AT_ONCE = 200

# So many conversations are read and opened at a time, to find some by their metadata.
_READ_AT_ONCE = 500

_NO_SEARCH = "search and encryption exclude each other: an index of words is not sealed"


def sealed_messages(backend: MessageBackend, config: BackendConfig) -> MessageBackend:
    """Return a back end that seals what it is given, if a configuration has keys."""
    if config.keyring is None:
        return backend
    if config.search_language is not None:
        raise ConfigurationError(_NO_SEARCH)
    return SealedMessages(backend, RecordSeal(config.keyring, config.encryption_accepts_plain))


class SealedMessages(MessageBackend):
    """Seals records before another back end stores them, and opens the rows that it returns.

    Args:
        backend: where the sealed records are.
        seal: seals and opens them.
    """

    def __init__(self, backend: MessageBackend, seal: RecordSeal) -> None:
        self.inner = backend
        self.seal = seal
        self.system_name = backend.system_name
        self.is_rewritten = backend.is_rewritten
        self.deleted_at_once = backend.deleted_at_once

    def limited_to(self, user_id: str) -> SealedMessages:
        """Return the same, before a back end that is limited to a user."""
        return SealedMessages(self.inner.limited_to(user_id), self.seal)

    async def open(self) -> None:
        """Open the other back end, unless it has an index of words.

        Raises:
            ConfigurationError: it has one.
        """
        await self.inner.open()
        if await self.inner.search_state() is not None:
            await self.inner.close()
            raise ConfigurationError(_NO_SEARCH)

    async def make_search(self, language: str | None) -> None:
        """Raise `ConfigurationError`: the words of sealed messages are not indexed."""
        raise ConfigurationError(_NO_SEARCH)

    async def close(self) -> None:
        await self.inner.close()

    async def ping(self) -> None:
        await self.inner.ping()

    async def pending(self) -> list[str]:
        return await self.inner.pending()

    # Writes

    async def store(self, turn: Turn) -> None:
        messages = list(map(self.seal.sealed, turn.messages))
        await self.inner.store(
            Turn(self._sealed(turn.conversation), messages, self._sealed(turn.trace))
        )

    async def store_many(
        self,
        conversations: Sequence[Snapshot[Conversation]],
        messages: Sequence[Snapshot[Message]],
        traces: Sequence[Snapshot[TurnTrace]],
    ) -> None:
        seal = self.seal.sealed
        await self.inner.store_many(
            list(map(seal, conversations)), list(map(seal, messages)), list(map(seal, traces))
        )

    async def flag_message(self, message_id: str, flagged: bool) -> bool:
        return await self.inner.flag_message(message_id, flagged)

    async def delete_message(self, message_id: str) -> bool:
        return await self.inner.delete_message(message_id)

    async def delete_conversation(self, conversation_id: str) -> bool:
        return await self.inner.delete_conversation(conversation_id)

    async def create_conversation(self, conversation: Snapshot[Conversation]) -> Row | None:
        row = await self.inner.create_conversation(self.seal.sealed(conversation))
        return self._opened("conversations", row)

    async def rewrite(
        self,
        kind: RecordKind,
        ids: Sequence[str],
        change: Callable[[Row], Snapshot[Any] | None],
    ) -> Sequence[str]:
        def sealed(row: Row) -> Snapshot[Any] | None:
            return self._sealed(change(self.seal.opened(kind, [row])[0]))

        return await self.inner.rewrite(kind, ids, sealed)

    async def move_user(self, from_user_id: str, to_user_id: str) -> int:
        return await self.inner.move_user(from_user_id, to_user_id)

    async def purge(self) -> None:
        await self.inner.purge()

    async def iter_keys(self, *, reseals: bool) -> AsyncIterator[KeysFound]:
        """Yield by which keys the records are sealed, some at a time.

        Args:
            reseals: whether what another key than the first sealed is sealed with that, in place of
                the very version that was opened; or else what a key of the store has sealed is
                opened, to see whether it does.
        """
        size = max(_RESEALED_AT_ONCE, self.deleted_at_once)
        for kind in KINDS:
            async for rows in self.inner.iter_stored(kind, size):
                keys = {row_id(row): self.seal.key_id(row) for row in rows}
                refused: list[str] = []
                if reseals:
                    first_id = self.seal.keyring.first_id
                    others = [name for name, key_id in keys.items() if key_id != first_id]
                    refused = await self._reseal(kind, others)
                else:
                    known = [row for row in rows if keys[row_id(row)] in self.seal.keyring.ids]
                    refused = await run_blocking(self._unopened, kind, known)
                yield KeysFound(kind, Counter(keys.values()), refused)

    def _unopened(self, kind: RecordKind, rows: Sequence[Row]) -> list[str]:
        """Return why some rows do not open."""
        found = []
        for row in rows:
            try:
                self.seal.opened(kind, [row])
            except DecryptionError as error:
                found.append(str(error))
        return found

    async def _reseal(self, kind: RecordKind, ids: Sequence[str]) -> list[str]:
        """Seal records with the first key; return why some were not."""
        refused: dict[str, str] = {}

        def change(row: Row) -> Snapshot[Any] | None:
            if self.seal.key_id(row) == self.seal.keyring.first_id:
                return None
            try:
                [opened] = self.seal.opened(kind, [row])
                return self.seal.sealed(Snapshot(_DECODERS[kind].record(opened)))
            except DecryptionError as error:
                refused[row_id(row)] = str(error)
            except ValidationError as error:
                refused[row_id(row)] = f"{error.title}: {reasons_of(error)}"
            return None

        if ids:
            await self.inner.rewrite(kind, ids, change)
        return list(refused.values())

    # A conversation as a log

    async def append(self, given: Append) -> int | Refusal:
        messages = list(map(self.seal.sealed, given.messages))
        sealed = given._replace(messages=messages, trace=self._sealed(given.trace))
        outcome = await self.inner.append(sealed)
        if isinstance(outcome, Refusal):
            # The store compares contents, which two sealed values of one text do not show.
            return outcome._replace(stored=self.seal.opened("messages", outcome.stored))
        return outcome

    async def pop(
        self, conversation_id: str, check: Callable[[Row], object], *, checks_all: bool = False
    ) -> Row | None:
        def opened(row: Row) -> object:
            return check(self.seal.opened("messages", [row], conversation_id)[0])

        row = await self.inner.pop(conversation_id, opened, checks_all=True)
        return self._opened("messages", row)

    async def rewind(self, conversation_id: str, after: str | None) -> int:
        return await self.inner.rewind(conversation_id, after)

    async def fork(self, fork: Fork) -> dict[str, str]:
        """Read the messages and the traces, and store copies of them sealed for their new places.

        The new conversation is stored first, then all its messages in one step, then their traces.
        If a step fails, the new conversation is deleted.
        """
        conversation_id, until, copy, salt = fork
        if await self.inner.get_conversation(conversation_id) is None:
            raise NotFoundError(f"conversation {conversation_id!r} is not stored")
        everything = MessagePage("conversation_id", conversation_id, None, None)
        rows = await self.list_messages(everything)
        messages = await run_blocking(_MESSAGES.records, rows)
        if until is not None:
            ids = [message.id for message in messages]
            if until not in ids:
                raise NotFoundError(f"message {until!r} is no message of this conversation")
            del messages[ids.index(until) + 1 :]
        rows = await self.list_conversation_traces(conversation_id)
        traces = await run_blocking(_TRACES.records, rows)
        owner = copy.record.id
        new_ids, copies, of_copies = forked(messages, traces, owner, salt)
        sealed = self.seal.sealed(copy)
        stored = await self.inner.create_conversation(sealed)
        # A repeated request, and some back ends, return what this call has stored itself.
        if stored is not None and not self.seal.is_of(stored, sealed):
            raise ConflictError(f"conversation {owner!r} is stored already; fork to a new one")
        try:
            await self._store_copies(copies, of_copies)
        except BaseException:
            await self.inner.delete_conversation(owner)
            raise
        return new_ids

    async def _store_copies(self, messages: list[Message], traces: list[TurnTrace]) -> None:
        def sealed(records: Sequence[AnyRecord]) -> list[Snapshot[AnyRecord]]:
            return [self.seal.sealed(Snapshot(record)) for record in records]

        if messages:
            await self.inner.store(Turn(messages=await run_blocking(sealed, messages)))
        if traces:
            await self.inner.store_many((), (), await run_blocking(sealed, traces))

    # Erasure and retention

    async def newest_sequence(self) -> Any:
        return await self.inner.newest_sequence()

    async def erase(self, user_id: str, limit: int, newest: Any) -> DeletedCounts:
        return await self.inner.erase(user_id, limit, newest)

    async def prune(self, conversations: Sequence[Row], before: int, limit: int) -> tuple[int, int]:
        return await self.inner.prune(conversations, before, limit)

    def iter_old(
        self, before: int, size: int, user_id: str | None = None
    ) -> AsyncIterator[Sequence[Row]]:
        return self.inner.iter_old(before, size, user_id)

    # Reads

    async def get_conversation(self, conversation_id: str) -> Row | None:
        row = await self.inner.get_conversation(conversation_id)
        return self._opened("conversations", row)

    async def get_message(self, message_id: str) -> Row | None:
        return self._opened("messages", await self.inner.get_message(message_id))

    async def get_trace(self, by: TraceKey, key: str) -> Row | None:
        return self._opened("traces", await self.inner.get_trace(by, key))

    async def get_messages(self, message_ids: Sequence[str]) -> Sequence[Row]:
        return await self._rows("messages", await self.inner.get_messages(message_ids))

    async def list_conversations(self, page: ConversationPage) -> Sequence[Row]:
        if page.where:
            return await self._matching(page)
        rows = await self.inner.list_conversations(page)
        return await self._rows("conversations", rows)

    async def _matching(self, page: ConversationPage) -> Sequence[Row]:
        """Return conversations by their metadata, which is sealed: each is read and opened."""
        where, limit = page.where, page.limit
        found: list[Row] = []
        last = page.after
        while limit is None or len(found) < limit:
            read = page._replace(where={}, limit=_READ_AT_ONCE, after=last)
            try:
                rows = await self.inner.list_conversations(read)
            except NotFoundError:
                if last == page.after:
                    raise
                found, last = [], page.after  # that one was deleted meanwhile
                continue
            opened = await self._rows("conversations", rows)
            found += [row for row in opened if contains(row[1].get("metadata") or {}, where)]
            if len(rows) < _READ_AT_ONCE:
                break
            last = row_id(rows[-1])
        return found[:limit]

    async def list_messages(self, page: MessagePage) -> Sequence[Row]:
        rows = await self.inner.list_messages(page)
        owner = page.owner if page.by == "conversation_id" else None
        return await self._rows("messages", rows, owner)

    async def next_messages(self, conversation_id: str, cursor: Any, size: int) -> Batch:
        rows, cursor = await self.inner.next_messages(conversation_id, cursor, size)
        return Batch(await self._rows("messages", rows, conversation_id), cursor)

    async def list_newest(self, page: NewestPage) -> Sequence[Row]:
        rows = await self.inner.list_newest(page)
        return await self._rows("messages", rows, page.conversation_id)

    async def count_messages(self, conversation_ids: Sequence[str]) -> dict[str, int]:
        return await self.inner.count_messages(conversation_ids)

    async def list_conversation_traces(self, conversation_id: str) -> Sequence[Row]:
        rows = await self.inner.list_conversation_traces(conversation_id)
        return await self._rows("traces", rows, conversation_id)

    async def list_agent_traces(
        self, agent_id: str, limit: int, offset: int, user_id: str | None = None
    ) -> Sequence[Row]:
        rows = await self.inner.list_agent_traces(agent_id, limit, offset, user_id)
        return await self._rows("traces", rows)

    async def find_traces(self, page: TracePage) -> Sequence[Row]:
        require_readable(page.where)
        return await self._rows("traces", await self.inner.find_traces(page))

    async def summarize(
        self, where: TraceFilter, by: UsageKey, conversation_ids: Sequence[str] | None = None
    ) -> list[UsageSummary]:
        require_readable(where)
        return await self.inner.summarize(where, by, conversation_ids)

    async def iter_stored(self, kind: RecordKind, size: int) -> AsyncIterator[Sequence[Row]]:
        async for rows in self.inner.iter_stored(kind, size):
            yield await self._rows(kind, rows)

    # Rows and snapshots

    def _sealed(self, given: Snapshot[AnyRecord] | None) -> Snapshot[AnyRecord] | None:
        return None if given is None else self.seal.sealed(given)

    def _opened(self, kind: RecordKind, row: Row | None) -> Row | None:
        return None if row is None else self.seal.opened(kind, [row])[0]

    async def _rows(
        self, kind: RecordKind, rows: Sequence[Row], conversation_id: str | None = None
    ) -> Sequence[Row]:
        if are_many(rows):
            # Opening them here would keep other calls waiting.
            return await run_blocking(self.seal.opened, kind, rows, conversation_id)
        return self.seal.opened(kind, rows, conversation_id)


_UNREADABLE = Unreadable()
_CONVERSATIONS = RowDecoder(Conversation, _UNREADABLE)
_MESSAGES = RowDecoder(Message, _UNREADABLE)
_TRACES = RowDecoder(TurnTrace, _UNREADABLE)
_DECODERS: Mapping[RecordKind, RowDecoder[Any]] = {
    "conversations": _CONVERSATIONS,
    "messages": _MESSAGES,
    "traces": _TRACES,
}
