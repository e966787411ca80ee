"""How a message store keeps its records: checks, pages and encryption, for all of its methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from jazzmine._async.message_store.backend import MessageBackend
from jazzmine._async.store import Store
from jazzmine._compat.concurrency import AsyncWork as Work
from jazzmine._compat.concurrency import async_run_blocking as run_blocking
from jazzmine.encryption.records import NO_SEARCH, RecordCodec, require_readable
from jazzmine.encryption.used_keys import SAMPLED, require_right_keys
from jazzmine.errors import ConfigurationError, NotFoundError
from jazzmine.records.arguments import require_count, require_id
from jazzmine.records.base import Record, RecordKind, Snapshot, snapshot
from jazzmine.records.hook_arguments import (
    ConversationPage,
    MessagePage,
    NewestPage,
    TracePage,
    Turn,
)
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.rows import Row, RowDecoder, are_many, row_id
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter

AnyRecord = TypeVar("AnyRecord", bound=Record)
AnyPage = TypeVar("AnyPage", ConversationPage, MessagePage, NewestPage, TracePage)
KeepRows: TypeAlias = Work[Sequence[Row]]


class StoredRecords(Store[MessageBackend]):
    """Stores and reads the records of conversations, messages and traces."""

    def __init__(self, backend: MessageBackend, codec: RecordCodec | None = None) -> None:
        super().__init__(backend)
        self.codec: RecordCodec | None = codec
        self._conversations = RowDecoder(Conversation, codec)
        self._messages = RowDecoder(Message, codec)
        self._traces = RowDecoder(TurnTrace, codec)

    async def _opened(self) -> None:
        await self.backend.settle_search()
        if self.codec is None:
            return
        if await self.backend.search_state() is not None:
            raise ConfigurationError(NO_SEARCH)
        newest = ConversationPage(None, "", {}, SAMPLED, None)
        rows = await self.backend.list_conversations(newest)
        keyring, key_id = self.codec.keyring, self.codec.key_id
        require_right_keys(keyring, rows, key_id, self._conversations.record)

    async def _put(self, turn: Turn) -> None:
        """Store some records, encrypted if this store has keys."""
        if self.codec is not None:
            conversations, messages, traces = turn
            encrypted = self.codec.encrypted
            turn = Turn(
                list(map(encrypted, conversations)),
                list(map(encrypted, messages)),
                list(map(encrypted, traces)),
            )
        await self.backend.store(turn)

    async def _edit(
        self,
        kind: RecordKind,
        decoder: RowDecoder[AnyRecord],
        record_id: str,
        edited: Callable[[AnyRecord], AnyRecord],
    ) -> AnyRecord:
        """Store another version of a stored record in place of the one that it was made of."""
        versions: list[AnyRecord] = []

        def change(row: Row) -> Snapshot[AnyRecord]:
            version = snapshot(edited(decoder.record(row)), decoder.kind)
            versions.append(version.record)
            return self._encoded(version)

        if not await self.backend.rewrite(kind, [record_id], change):
            raise NotFoundError(f"{decoder.kind.__name__.lower()} {record_id!r} is not stored")
        return versions[-1]

    async def _page(
        self,
        decoder: RowDecoder[AnyRecord],
        hook: Work[Sequence[Row]],
        page: AnyPage,
        keep: KeepRows | None = None,
        matches: Callable[[AnyRecord], bool] | None = None,
    ) -> list[AnyRecord]:
        """Return a page of records: further ones take the place of those that are left out.

        The `limit` and `after` of the page are checked here. Only the rows that `keep` returns are
        decoded, and only the records that match are returned.
        """
        of = _conversation_of(page)

        async def decoded(rows: Sequence[Row]) -> list[AnyRecord]:
            kept = rows if keep is None else await keep(rows)
            records = await self._decoded(decoder, kept, of)
            return records if matches is None else list(filter(matches, records))

        size = None if page.limit is None else require_count("limit", page.limit)
        last = None if page.after is None else require_id("after", page.after)
        if size == 0 and last is None:
            return []
        if size is not page.limit or last is not page.after:
            page = page._replace(limit=size, after=last)
        rows = await hook(page)
        records, wanted = await decoded(rows), size
        while size is not None and len(records) < size and len(rows) == wanted:
            # What is left out may go on for long: larger pages, which are decoded in a thread.
            if not are_many(rows):
                wanted *= 2
            rows = await hook(page._replace(limit=wanted, after=row_id(rows[-1])))
            records += await decoded(rows)
        return records[:size]

    async def _decoded(
        self,
        decoder: RowDecoder[AnyRecord],
        rows: Sequence[Row],
        conversation_id: str | None = None,
    ) -> list[AnyRecord]:
        if are_many(rows):
            # Parsing them here would keep other calls waiting.
            records: list[AnyRecord] = await run_blocking(
                decoder.records_in_parts, rows, conversation_id
            )
            return records
        return decoder.records(rows, conversation_id)

    def _decoder_of(self, kind: RecordKind) -> RowDecoder[Any]:
        if kind == "conversations":
            return self._conversations
        return self._messages if kind == "messages" else self._traces

    def _encoded(self, given: Snapshot[AnyRecord]) -> Snapshot[AnyRecord]:
        return given if self.codec is None else self.codec.encrypted(given)

    def _require_readable(self, where: TraceFilter) -> None:
        if self.codec is not None:
            require_readable(where)


def _conversation_of(page: object) -> str | None:
    """Return the conversation whose messages a page has, if it is one."""
    if isinstance(page, NewestPage):
        return page.conversation_id
    if isinstance(page, MessagePage) and page.by == "conversation_id":
        return page.owner
    return None
