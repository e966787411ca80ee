"""The hooks of the message store in a MongoDB database that write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, TypeVar

from jazzmine._async.clients.mongodb.types import Session
from jazzmine._async.message_store import mongodb_steps as steps
from jazzmine._async.message_store.building import built
from jazzmine._async.message_store.mongodb_reads import COLLECTIONS_OF, MongoDBReads
from jazzmine._compat.concurrency import AsyncWork as Work
from jazzmine.backends.mongodb.documents import (
    Document,
    document_of,
    escaped,
    id_of,
    message_documents,
    to_row,
    to_rows,
)
from jazzmine.backends.mongodb.errors import is_duplicate
from jazzmine.backends.mongodb.indexes import CONVERSATIONS, INDEXES, MESSAGES, TRACES
from jazzmine.backends.mongodb.queries import (
    MESSAGES_OF_CONVERSATION,
    NEWEST_MESSAGES,
    OLDEST_CONVERSATIONS,
    TOUCH,
    equal,
    older_than,
    owned_by,
)
from jazzmine.config import MongoDBConfig
from jazzmine.deadline import Deadline
from jazzmine.errors import IntegrityError
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.conversation_log import DeletedCounts, Refusal
from jazzmine.records.hook_arguments import Append, Fork, Turn
from jazzmine.records.messages import Conversation
from jazzmine.records.rows import Row

T = TypeVar("T")

# How many conversations a store knows, and for how long, in s: another process may delete them.
_MOST_KNOWN = 10_000
KNOWN_SECONDS = 5.0


class MongoDBBackend(MongoDBReads):
    """The hooks of a message store in a MongoDB database."""

    def __init__(self, config: MongoDBConfig) -> None:
        super().__init__(config)
        # The conversations that were stored when this store last wrote to them.
        self._known: set[str] = set()
        self._known_until = Deadline(KNOWN_SECONDS)

    async def store(self, turn: Turn) -> None:
        given = steps.TurnDocuments(
            list(map(document_of, turn.conversations)),
            await built(message_documents, turn.messages, turn.messages, self._analyser),
            list(map(document_of, turn.traces)),
        )
        if sum(map(len, given)) > 1:
            await self._store_turn(given)
        elif given.messages:
            await self._store_message(given)
        elif given.traces:
            await self._store_trace(given)
        else:
            [conversation] = given.conversations
            await self._put(CONVERSATIONS, equal(id=conversation["id"]), conversation)

    async def _store_turn(self, turn: steps.TurnDocuments) -> None:
        owners = {message["conversation_id"] for message in turn.messages}
        ids = owners.union(map(id_of, turn.conversations))
        ids.update(trace["conversation_id"] for trace in turn.traces)

        async def attempt(known: bool, session: Session | None) -> None:
            await steps.put_turn(self.client.collections, turn, known, session)
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            self._known |= owners

        try:
            await self._transaction(ids, attempt)
        except BaseException:
            self._known -= owners
            raise

    async def _store_message(self, turn: steps.TurnDocuments) -> None:
        """Store one message, without a transaction if its conversation is known."""
        [message] = turn.messages
        owner = message["conversation_id"]
        if self._known_until.expired:
            self._known.clear()
            self._known_until = Deadline(KNOWN_SECONDS)
        if owner not in self._known:
            await self._store_turn(turn)
            return
        own = equal(id=message["id"], conversation_id=owner)
        await self._put(MESSAGES, own, message)
        if owner not in self._known:
            # This store has deleted the conversation at the same time, perhaps before the message.
            try:
                await self._store_turn(turn)
            except IntegrityError:
                messages = self.client.collections[MESSAGES]
                await self.client.run(partial(messages.delete_one, own))
                raise

    async def _store_trace(self, turn: steps.TurnDocuments) -> None:
        """Store one trace, without a transaction if its message has no other one."""
        [trace] = turn.traces
        await self.client.run(partial(steps.require_messages, self.client.collections, turn.traces))
        try:
            await self._put(TRACES, equal(id=trace["id"], message_id=trace["message_id"]), trace)
        except IntegrityError:
            await self._store_turn(turn)

    async def _put(self, name: str, query: Document, document: Document) -> None:
        put = partial(self.client.collections[name].replace_one, query, document, upsert=True)
        try:
            await self.client.run(put)
        except IntegrityError:
            # Perhaps another call inserted it at the same time, and now it is replaced.
            await self.client.run(put)

    async def _transaction(self, ids: set[str], attempt: Work[T]) -> T:
        """Call `attempt` with False; with True, which is slower, if an id is stored already."""
        try:
            return await self.client.transaction(ids, partial(attempt, False))
        except IntegrityError as error:
            if not is_duplicate(error.__cause__):
                raise
        return await self.client.transaction(ids, partial(attempt, True))

    async def flag_message(self, message_id: str, flagged: bool) -> bool:
        messages, own = self.client.collections[MESSAGES], equal(id=message_id)
        update = {"$set" if flagged else "$unset": {"is_flagged": True}}
        result = await self.client.run(lambda: messages.update_one(own, update))
        return bool(result.matched_count)

    async def delete_message(self, message_id: str) -> bool:
        stored = self.client.collections

        async def attempt(session: Session | None) -> bool:
            result = await stored[MESSAGES].delete_one(equal(id=message_id), session=session)
            await stored[TRACES].delete_many(equal(message_id=message_id), session=session)
            return bool(result.deleted_count)

        return await self.client.transaction([message_id], attempt)

    async def delete_conversation(self, conversation_id: str) -> bool:
        erased = await self._erase_conversation(conversation_id, equal(id=conversation_id))
        return bool(erased.conversations)

    async def create_conversation(self, conversation: Snapshot[Conversation]) -> Row | None:
        document, conversations = document_of(conversation), self.client.collections[CONVERSATIONS]
        own, insertion = equal(id=document["id"]), {"$setOnInsert": document}
        create: Work[Any] = partial(
            conversations.find_one_and_update, own, insertion, upsert=True, return_document=True
        )
        return to_row(await self.client.run(create))

    async def rewrite(
        self,
        kind: RecordKind,
        ids: Sequence[str],
        change: Callable[[Row], Snapshot[Any] | None],
    ) -> Sequence[str]:
        collection = self.client.collections[COLLECTIONS_OF[kind]]
        analyser = self._analyser if kind == "messages" else None

        async def rewrite(own: Document) -> bool:
            while (stored := await collection.find_one(own)) is not None:
                changed = change(to_row(deepcopy(stored)))
                if changed is None:
                    return False
                new = document_of(changed, analyser)
                fields = [name for name in new if new[name] != stored.get(name)]
                unchanged = {name: {"$eq": stored.get(name)} for name in fields}
                update = {"$set": {name: new[name] for name in fields}}
                if not fields:
                    return True
                if (await collection.update_one({**own, **unchanged}, update)).matched_count:
                    return True
            return False

        return [one for one in ids if await self.client.run(partial(rewrite, equal(id=one)))]

    async def move_user(self, from_user_id: str, to_user_id: str) -> int:
        own, update = equal(user_id=from_user_id), {"$set": {"user_id": to_user_id}}

        async def attempt(session: Session | None) -> int:
            moved = 0
            for name in INDEXES:
                collection = self.client.collections[name]
                moved += (await collection.update_many(own, update, session=session)).matched_count
            return moved

        return await self.client.transaction([], attempt)

    # A conversation as a log

    async def append(self, given: Append) -> int | Refusal:
        documents = await built(message_documents, given.messages, given.messages, self._analyser)
        attempt = partial(steps.append, self.client.collections, given, documents)
        try:
            return await self._transaction({given.conversation_id}, attempt)
        except steps.RefusedError as refused:
            return refused.refusal

    async def pop(self, conversation_id: str, check: Callable[[Row], object]) -> Row | None:
        stored, owned = self.client.collections, equal(conversation_id=conversation_id)

        async def attempt(session: Session | None) -> Row | None:
            await self._touch(conversation_id, session)
            sort = NEWEST_MESSAGES.sort
            newest = await stored[MESSAGES].find_one(owned, sort=sort, session=session)
            if newest is None:
                return None
            row = to_row(newest.copy())
            check(row)
            await steps.remove(stored, [newest], session)
            return row

        return await self.client.transaction([conversation_id], attempt)

    async def rewind(self, conversation_id: str, after: str | None) -> int:
        stored, listing = self.client.collections, MESSAGES_OF_CONVERSATION

        async def attempt(session: Session | None) -> int:
            await self._touch(conversation_id, session)
            last = None
            if after is not None:
                owned = listing.of(conversation_id)
                last = await self._cursor(listing, owned, after, session)
            later = await steps.tail(stored, conversation_id, last, session)
            return (await steps.remove(stored, later, session)).messages

        return await self.client.transaction([conversation_id], attempt)

    async def _touch(self, conversation_id: str, session: Session | None) -> None:
        """Conflict with other transactions about a conversation."""
        own, conversations = equal(id=conversation_id), self.client.collections[CONVERSATIONS]
        await conversations.update_one(own, TOUCH, session=session)

    async def fork(self, fork: Fork) -> dict[str, str]:
        document = document_of(fork.copy)
        attempt = partial(steps.copy, self.client.collections, fork, document)
        return await self.client.transaction([fork.conversation_id, document["id"]], attempt)

    # Erasure and retention

    async def newest_sequence(self) -> dict[str, Any]:
        """Return the highest `_id` of each collection; None if it is empty."""

        async def newest(name: str) -> Document | None:
            place = {"_id": 1}
            return await self.client.collections[name].find_one({}, place, sort=[("_id", -1)])

        found = {name: await self.client.run(partial(newest, name)) for name in INDEXES}
        return {name: document and document["_id"] for name, document in found.items()}

    async def erase(self, user_id: str, limit: int, newest: Any) -> DeletedCounts:
        own, stored = equal(user_id=user_id), self.client.collections

        def until(name: str) -> Document:
            return {**own, "_id": {"$lte": newest[name]}}

        async def erase_messages(session: Session | None) -> DeletedCounts:
            found = stored[MESSAGES].find(until(MESSAGES), {"id": 1}, limit=limit, session=session)
            return await steps.remove(stored, await found.to_list(), session)

        async def erase_traces(session: Session | None) -> DeletedCounts:
            found = stored[TRACES].find(until(TRACES), {"_id": 1}, limit=limit, session=session)
            chosen = {"_id": {"$in": [document["_id"] for document in await found.to_list()]}}
            result = await stored[TRACES].delete_many(chosen, session=session)
            return DeletedCounts(0, 0, result.deleted_count)

        while documents := await self._find(OLDEST_CONVERSATIONS, until(CONVERSATIONS), 1):
            chosen = {**own, "_id": documents[0]["_id"]}
            erased = await self._erase_conversation(id_of(documents[0]), chosen, limit)
            if any(erased):
                return erased
        for step in (erase_messages, erase_traces):
            erased = await self.client.transaction([], step)
            if any(erased):
                return erased
        return DeletedCounts()

    async def _erase_conversation(
        self, conversation_id: str, own: Document, limit: int = 0, before: int | None = None
    ) -> DeletedCounts:
        erase = partial(
            steps.erase_conversation, self.client.collections, conversation_id, own, limit, before
        )

        async def attempt(session: Session | None) -> DeletedCounts:
            self._known.discard(conversation_id)
            return await erase(session)

        return await self.client.transaction([conversation_id], attempt)

    async def prune(self, conversations: Sequence[Row], before: int, limit: int) -> tuple[int, int]:
        conversation_id, body = conversations[0]
        unchanged = {"metadata": {"$eq": escaped(body.get("metadata"))}}
        own = {**older_than(before), **equal(id=conversation_id), **unchanged}
        pruned = await self._erase_conversation(conversation_id, own, limit, before)
        is_done = pruned.conversations or not any(pruned)
        return pruned.conversations, int(is_done)

    async def iter_old(
        self, before: int, size: int, user_id: str | None = None
    ) -> AsyncIterator[Sequence[Row]]:
        listing = OLDEST_CONVERSATIONS
        old = query = {**older_than(before), **owned_by(user_id)}
        while documents := await self._find(listing, query, size):
            query = listing.after(old, documents[-1])
            yield to_rows(documents)
