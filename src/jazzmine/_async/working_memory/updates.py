"""How a conversation's working memory is read, changed and locked, on every back end."""

from __future__ import annotations

import logging
import os
import platform
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TypeAlias, TypeVar

from jazzmine._async.background import BackgroundTasks
from jazzmine._async.keyed_locks import KeyedLocks
from jazzmine._async.working_memory.backend import WorkingMemoryBackend
from jazzmine._async.working_memory.known_states import KnownStates
from jazzmine._compat.concurrency import AsyncEvent as Event
from jazzmine._compat.concurrency import AsyncTask as Task
from jazzmine._compat.concurrency import AsyncWork as Work
from jazzmine._compat.concurrency import async_sleep as sleep
from jazzmine.config import MemoryOptions
from jazzmine.deadline import Deadline, backoff, call_deadline
from jazzmine.encryption.states import StateForm
from jazzmine.errors import (
    JazzmineError,
    LockLostError,
    LockTimeoutError,
    StoreClosedError,
    StoreUnavailableError,
)
from jazzmine.records.memory_base import set_unvalidated
from jazzmine.records.stored_memory import Data, Lock, Locked, Save, Stored, new_mark
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["Block", "Decide", "Updates"]

T = TypeVar("T")

# What a call makes of what is stored, whose `data` is a working memory that it must not change, or
# None. It returns the new data, None to delete them, or `data` itself to leave them; or it raises.
# It may be called several times.
Decide: TypeAlias = "Callable[[Stored], Data]"

logger: logging.Logger = logging.getLogger(__name__)

# The first and the longest pause, in s, while another call holds the lock.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1

# How long a call that several others have preceded lets them go first before the next one, in s.
_COURTESY = 0.001

# When a lock whose request was given up is released again, in s: the request may arrive later.
_RELEASED_AGAIN = 0.2

# How often a store sweeps what has expired, at most, in s.
_SWEEPING = 60.0


@dataclass(eq=False)
class Block:
    """A `locked` block.

    Attributes:
        free_by: until when it waits for other calls.
        lock: what it asks the back end for; None before and after.
        stored: what was stored when the lock was taken.
        began: when, on the monotonic clock.
        is_over: set when the lock need not be renewed any more.
        renewal: what renews the lock; None without a lock.
    """

    conversation_id: str
    free_by: Deadline
    lock: Lock | None = None
    stored: Stored = field(default_factory=Stored)
    began: float = field(default_factory=monotonic)
    is_over: Event = field(default_factory=Event)
    renewal: Task | None = None


class Updates:
    """Reads and changes the states of a back end, each change against what is stored.

    A change needs no lock: it is applied to the state that was read last, and written if nobody
    else has written meanwhile; or else it is applied again, to what is stored now. The calls of a
    conversation in this process wait for each other, so that they never conflict.

    Args:
        backend: where the states are.
        memory_type: the class of the working memories.
        config: the times of the store.
        check: raises if the store was closed.
        form: how a state is written and read.
    """

    def __init__(
        self,
        backend: WorkingMemoryBackend,
        memory_type: type[WorkingMemory],
        config: MemoryOptions,
        check: Callable[[], None],
        form: StateForm,
    ) -> None:
        self._backend = backend
        self._memory_type = memory_type
        self._config = config
        self._longest_wait = min(config.lock_timeout, config.timeout)
        self._check = check
        self._form = form
        # The deadline of a call stands for the call.
        self._calls: KeyedLocks[Deadline | Block] = KeyedLocks()
        self.known: KnownStates = KnownStates()
        self.background_tasks: BackgroundTasks = BackgroundTasks()
        self._next_sweep = Deadline(_SWEEPING * random.random())

    # Reads and changes

    async def load(self, conversation_id: str, *, renew: bool = False) -> Stored:
        """Return what is stored, not to be changed; with `renew` its time to live starts anew."""
        deadline = call_deadline(self._config.timeout)
        stored = await self._backend.load(conversation_id, deadline, renew=renew)
        return self._remembered(conversation_id, stored)

    async def change(
        self,
        conversation_id: str,
        decide: Decide,
        *,
        read: Stored | None = None,
        parse: bool = True,
    ) -> tuple[Data, bool]:
        """Change a conversation's state, after the calls before this one.

        Args:
            decide: what is to be done. What it returns or raises counts only where it was given
                what is stored at that moment.
            read: what is stored, if it was read just now.
            parse: whether it needs the working memory; or else `data` is what the back end has.

        Returns:
            What is stored now, and whether this call has changed it.
        """
        deadline, stored, is_current = call_deadline(self._config.timeout), read, False
        new: Data = None
        save: Save | None = None
        conflicts = 0  # the first one only tells that this process has not read the latest state

        def apply(now: Stored) -> None:
            nonlocal stored, new, save
            stored, save = now, None
            new = decide(now)
            if new is not now.data:
                save = self._new_save(conversation_id, now, new)

        def again(now: Stored) -> Save | None:
            nonlocal save
            save = None
            # What is raised here is raised when it is applied to that outside of a transaction.
            with suppress(BaseException):
                apply(self._remembered(conversation_id, now, parse))
            return save

        try:
            if not self._calls.try_acquire(conversation_id, deadline):
                await self._wait_for_others(conversation_id, deadline, deadline)
            if stored is None and parse:
                stored = self.known.get(conversation_id)
            while True:
                if stored is None:
                    stored = await self._backend.load(conversation_id, deadline)
                    stored, is_current = self._remembered(conversation_id, stored, parse), True
                try:
                    apply(stored)
                except Exception:
                    if is_current:
                        raise
                if save is None:
                    if is_current:
                        return stored.data, False
                    stored = None
                    continue
                outcome = await self._backend.write(save, again, deadline)
                if isinstance(outcome, Locked):
                    request = partial(self._backend.write, save, again, deadline)
                    free_by = call_deadline(self._longest_wait)
                    outcome = await self._when_free(conversation_id, request, outcome, free_by)
                if outcome is None:
                    self._keep(conversation_id, save, new)
                    if conflicts > 1:
                        # Other processes wait, too: one that writes again at once, with the state
                        # that it has, would keep them waiting.
                        await sleep(_COURTESY)
                    return new, True
                stored, is_current = self._remembered(conversation_id, outcome, parse), True
                conflicts += 1
        finally:
            try:
                self._calls.release(conversation_id, deadline)
            except BaseException:  # Ctrl-C, perhaps before it was released
                self._calls.release(conversation_id, deadline)
                raise

    def _new_save(self, conversation_id: str, stored: Stored, new: Data, token: str = "") -> Save:
        mark, data, user_id = new_mark(), new, stored.user_id
        if isinstance(new, WorkingMemory):
            set_unvalidated(new, version_token=mark, confirmed=None)
            is_kept = self._backend.is_in_process and self._form.keyring is None
            data, user_id = new if is_kept else self._form.written(new), new.user_id
        return Save(conversation_id, mark, stored.mark, data, user_id, self._form.format, token)

    def _keep(self, conversation_id: str, save: Save, new: Data) -> None:
        """Keep what was saved for the next call; now and then sweep what has expired."""
        if isinstance(new, WorkingMemory) and isinstance(save.data, bytes):
            stored = Stored(save.mark, new, save.user_id)
            self.known.keep(conversation_id, stored, len(save.data))
        elif self.known.get(conversation_id) is not None:
            self.known.forget(conversation_id)
        if self._backend.keeps_expired and self._next_sweep.expired:
            self._next_sweep = Deadline(_SWEEPING * random.uniform(0.5, 1.0))
            self.background_tasks.start(self._sweep)

    async def _sweep(self) -> None:
        """Delete some of what has expired; more is left to the next save."""
        try:
            if await self._backend.sweep(Deadline(self._config.timeout)):
                self._next_sweep = Deadline(0.0)
        except (OSError, JazzmineError) as error:
            logger.debug("expired working memories are left to be swept: %s", error)

    # Blocks

    def begin_block(self, conversation_id: str) -> Block:
        """Return a block, which has no lock yet."""
        return Block(conversation_id, call_deadline(self._longest_wait))

    async def lock(self, block: Block) -> Stored:
        """Take the lock of a block's conversation, after the calls before it, and read."""
        conversation_id, deadline = block.conversation_id, call_deadline(self._config.timeout)
        if not self._calls.try_acquire(conversation_id, block):
            await self._wait_for_others(conversation_id, block, deadline)
        block.lock = Lock(conversation_id, new_mark(), _this_process(), self._config.lease_seconds)
        stored = await self._backend.lock(block.lock, deadline)
        if isinstance(stored, Locked):
            request = partial(self._backend.lock, block.lock, deadline)
            stored = await self._when_free(conversation_id, request, stored, block.free_by)
        if not stored.mark:
            block.lock = None
        elif not self._backend.is_in_process:
            block.renewal = Task(partial(self._renew, block, block.lock))
        block.stored = self._remembered(conversation_id, stored)
        return block.stored

    async def _renew(self, block: Block, lock: Lock) -> None:
        """Renew the lock until the block is over; a renewal that comes later does no harm."""
        pause = every = lock.seconds / 3
        deadline, pauses = Deadline(lock.seconds), backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while not await block.is_over.wait(pause):
            try:
                outcome = await self._backend.lock(lock._replace(renews=True), deadline)
            except Exception as error:
                if deadline.expired:
                    logger.warning("%r: the lock was not renewed: %s", block.conversation_id, error)
                    return
                pause = next(pauses)
                continue
            if not isinstance(outcome, Stored) or outcome.mark != block.stored.mark:
                return  # it is lost
            pause, deadline = every, Deadline(lock.seconds)

    async def _stop_renewing(self, block: Block) -> None:
        block.is_over.set()
        if block.renewal is not None:
            await block.renewal.cancel()
            await block.renewal.wait(0.1)

    async def save_block(self, block: Block, memory: WorkingMemory) -> None:
        """Save the state of a block, which releases its lock, and let the next call go.

        Raises:
            LockLostError: what was read is not stored any more, or somebody else holds the lock.
        """
        await self._stop_renewing(block)
        token = "" if block.lock is None else block.lock.token
        save = self._new_save(block.conversation_id, block.stored, memory, token)
        outcome = await self._backend.write(save, lambda _: None, Deadline(self._config.timeout))
        if outcome is not None:
            self.known.forget(block.conversation_id)
            if isinstance(outcome, Locked):
                reason = f"its lock expired, and {outcome.holder} holds it now"
            elif outcome.mark:
                reason = "its lock expired, and another call has saved since"
            else:
                reason = "its working memory was deleted meanwhile, or has expired (ttl_seconds)"
            raise LockLostError(
                f"the block of conversation {block.conversation_id!r} has lost what it locked:"
                f" {reason}; nothing was written"
            )
        block.lock = None
        self._keep(block.conversation_id, save, memory)
        self._calls.release(block.conversation_id, block)

    async def abandon_block(self, block: Block, error: BaseException | None = None) -> None:
        """Release the lock of a block that has not saved, and let the next call go.

        Args:
            error: what was raised, if anything. A call that was cancelled, or whose server has
                failed, waits for the server for a moment: the program may end now.
        """
        lock, block.lock = block.lock, None
        try:
            if lock is not None and not isinstance(error, StoreClosedError):
                failed = isinstance(error, StoreUnavailableError)
                longest = Deadline(0.3 if failed else min(1.0, self._config.timeout))
                task = self.background_tasks.start(partial(self._unlock, lock, longest))
                is_ordinary = error is None or isinstance(error, Exception)
                await task.wait(0.1 if failed else None if is_ordinary else 0.3)
                if not block.stored.mark:
                    again = partial(self._unlock, lock, Deadline(1.0), _RELEASED_AGAIN)
                    self.background_tasks.start(again)
            await self._stop_renewing(block)
        finally:
            self._calls.release(block.conversation_id, block)

    async def _unlock(self, lock: Lock, deadline: Deadline, after: float = 0.0) -> None:
        try:
            await sleep(after)
            await self._backend.unlock(lock.conversation_id, lock.token, deadline)
        except Exception as error:
            logger.debug("%r: the lock is left to expire: %s", lock.conversation_id, error)

    # Steps of both

    async def _wait_for_others(
        self, conversation_id: str, call: Deadline | Block, deadline: Deadline
    ) -> None:
        """Wait for the calls of this process on the same conversation."""
        free_by = call.free_by if isinstance(call, Block) else call_deadline(self._longest_wait)
        if not await self._calls.acquire(conversation_id, call, free_by.remaining()):
            holder = self._calls.holder(conversation_id)
            if isinstance(holder, Block):
                held_for = monotonic() - holder.began
                raise self._not_free(conversation_id, _this_process(), held_for)
            if not await self._calls.acquire(conversation_id, call, deadline.remaining()):
                raise StoreUnavailableError(
                    f"the calls before this one on conversation {conversation_id!r} did not end"
                    f" within {self._config.timeout:g} s"
                )
        self._check()  # the store may have been closed while this waited

    async def _when_free(
        self, conversation_id: str, request: Work[T | Locked], outcome: Locked, free_by: Deadline
    ) -> T:
        """Make a request again and again while another call holds the lock."""
        pauses, latest = backoff(_FIRST_PAUSE, _LONGEST_PAUSE), outcome
        while seconds := free_by.remaining():
            await sleep(min(next(pauses), seconds))
            self._check()
            answer = await request()
            if not isinstance(answer, Locked):
                return answer
            latest = answer
        raise self._not_free(conversation_id, latest.holder, latest.held_for)

    def _not_free(self, conversation_id: str, holder: str, held_for: float) -> LockTimeoutError:
        who, advice = holder, ""
        if holder == _this_process():
            who = "a block of this process"
            advice = "; in a locked() block use the methods of its working memory, not the store's"
        return LockTimeoutError(
            f"the lock of conversation {conversation_id!r} was not free within"
            f" {self._longest_wait:g} s: {who} has held it for {held_for:.1f} s{advice}"
        )

    def _remembered(self, conversation_id: str, stored: Stored, parse: bool = True) -> Stored:
        """Return what is stored with its working memory, and keep it for the next call.

        One that cannot be read counts as none, and the next save replaces it.
        """
        data = stored.data
        if not parse or not isinstance(data, bytes):
            return stored
        known = self.known.get(conversation_id)
        if known is not None and known.mark == stored.mark:
            return known
        memory = self._form.read(data, conversation_id, stored.user_id, self._memory_type)
        if memory is not None:
            set_unvalidated(memory, version_token=stored.mark)
        parsed = stored._replace(data=memory)
        self.known.keep(conversation_id, parsed, len(data))
        return parsed


def _this_process() -> str:
    """Return how the lock of a block of this process names its holder."""
    return f"process {os.getpid()} on {platform.node()}"
