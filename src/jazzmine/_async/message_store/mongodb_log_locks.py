"""Runs the calls that change one conversation's log on MongoDB one after another."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from bson import ObjectId
from pymongo.errors import PyMongoError

from jazzmine._async.keyed_locks import KeyedLocks
from jazzmine._compat.async_concurrency import Work, sleep
from jazzmine.backends.mongodb.documents import LOG_LOCK, Document
from jazzmine.backends.mongodb.driver import is_conflict
from jazzmine.backends.mongodb.log import lock, lockable, unlock
from jazzmine.backends.mongodb.queries import among, equal
from jazzmine.deadline import Deadline, backoff
from jazzmine.errors import JazzmineError

if TYPE_CHECKING:
    from jazzmine._async.message_store.mongodb_client import MongoDBClient
    from jazzmine._async.message_store.mongodb_types import Session

__all__ = ["LogLocks"]

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.2
_LONGEST_LEASE_PAUSE = 0.1


class LogLocks:
    """A queue for each conversation in this process, and a lease on a standalone server.

    With transactions, the queue only keeps the calls of one process from conflicts: what orders
    all changes of a log is that each of them writes to the conversation's document.

    A standalone server has no transactions. There a call takes a lease, which is in the
    conversation's document until the deadline of the call. The next call after one that ended
    half-way first removes what that one has left. The lease belongs to a store, whose queue
    lets one call use it at a time; so a store never waits for a lease of its own.
    """

    def __init__(self, client: MongoDBClient) -> None:
        self._client = client
        self.after_fork()

    def after_fork(self) -> None:
        """Start with new locks and a token of this process."""
        self._queues: KeyedLocks[object] = KeyedLocks()
        self._pause = 0.0
        self.token = ObjectId()

    async def run(self, deadline: Deadline, conversation_id: str, work: Work[T], *args: Any) -> T:
        """Call `work` while no other call changes the log; after a transient error again.

        Args:
            deadline: that of the call.
            conversation_id: whose log; the conversation need not be stored.
            work: takes the session of the call, which is None on a standalone server, and `args`.
        """
        attempt = (self._leased, deadline, conversation_id, work, *args)
        done: T = await self.queued(deadline, [conversation_id], *attempt)
        return done

    async def queued(self, deadline: Deadline, ids: Sequence[str], work: Work[T], *args: Any) -> T:
        """Do the same as `run` for several logs, without a lease."""
        queues, owner = self._queues, object()
        try:
            # In one order everywhere, so that no two calls wait for each other.
            for one in sorted(set(ids)):
                if not await queues.acquire(one, owner, deadline.remaining()):
                    raise self._client.unanswered()
            done: T = await self._client.write(deadline, work, *args)
            return done
        finally:
            for one in ids:
                queues.release(one, owner)

    async def _leased(
        self,
        session: Session | None,
        deadline: Deadline,
        conversation_id: str,
        work: Work[T],
        *args: Any,
    ) -> T:
        if session is not None:
            done: T = await self._without_conflict(session, deadline, work, *args)
            return done
        if not await self.lock(conversation_id, deadline):
            return await work(None, *args)
        try:
            done = await work(None, *args)
        except (PyMongoError, JazzmineError):
            await self.abandon(conversation_id)
            raise
        await self.unlock(conversation_id)
        return done

    async def _without_conflict(
        self, session: Session, deadline: Deadline, work: Work[T], *args: Any
    ) -> T:
        """Call `work`, and again after each conflict with another process.

        An attempt that fails costs the server nearly as much as one that succeeds, so the pauses
        of a call begin where those of the call before have ended, and become shorter only
        after a call without conflict.
        """
        self._pause /= 2
        while True:
            try:
                return await work(session, *args)
            except PyMongoError as error:
                if not is_conflict(error):
                    raise
                self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE)
                pause = self._pause * random.uniform(0.5, 1.0)
                if deadline.remaining() < 2 * pause:
                    raise
            await sleep(pause)

    # On a standalone server

    async def lock(self, conversation_id: str, deadline: Deadline) -> bool:
        """Take the lease of a conversation; return False if the conversation is not stored."""
        conversations, wanted = self._client.conversations, equal(id=conversation_id)
        for pause in backoff(_FIRST_PAUSE, _LONGEST_LEASE_PAUSE):
            remaining = deadline.remaining()
            before = await conversations.find_one_and_update(
                lockable(conversation_id, self.token), lock(self.token, remaining), {LOG_LOCK: 1}
            )
            if before is not None:
                return await self._recover(conversation_id, before)
            if await conversations.find_one(wanted, {"_id": 1}) is None:
                return False
            if deadline.expired:
                break
            await sleep(min(pause, remaining))
        raise self._client.unanswered()

    async def unlock(self, conversation_id: str) -> None:
        """Release the lease of a conversation, if this store has it."""
        held = {**equal(id=conversation_id), f"{LOG_LOCK}.token": self.token}
        await self._client.conversations.update_one(held, unlock())

    async def abandon(self, conversation_id: str) -> None:
        """Remove what a call that failed has left, or leave that to the next call."""
        held = {**equal(id=conversation_id), f"{LOG_LOCK}.token": self.token}
        try:
            before = await self._client.conversations.find_one(held, {LOG_LOCK: 1})
            if before is not None and await self._recover(conversation_id, before):
                await self.unlock(conversation_id)
        except PyMongoError:
            pass

    async def _recover(self, conversation_id: str, before: Document) -> bool:
        """Remove what a call that ended half-way has left; return whether that was not all."""
        left, client = before.get(LOG_LOCK) or {}, self._client
        owned = equal(conversation_id=conversation_id)
        if left.get("fork"):
            await client.traces.delete_many(owned)
            await client.messages.delete_many(owned)
            await client.conversations.delete_one(equal(id=conversation_id))
            return False
        pending = left.get("pending") or []
        if len(pending) > 1:
            some = {**owned, **among("id", pending)}
            stored = await client.find_ids(client.messages, some)
            if 0 < len(stored) < len(pending):
                await client.traces.delete_many(among("message_id", stored))
                await client.messages.delete_many(some)
        return True
