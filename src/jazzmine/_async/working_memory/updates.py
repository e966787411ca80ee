"""How a conversation's working memory is read, changed and locked, on every back end."""

from __future__ import annotations

import logging
import os
import platform
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, time
from typing import ClassVar, TypeAlias

from jazzmine._async.background import BackgroundTasks
from jazzmine._async.keyed_locks import KeyedLocks
from jazzmine._async.store import Store
from jazzmine._async.working_memory.backend import WorkingMemoryBackend
from jazzmine._compat.concurrency import AsyncEvent as Event
from jazzmine._compat.concurrency import async_sleep as sleep
from jazzmine.config import MemoryOptions
from jazzmine.deadline import Deadline, backoff, call_deadline
from jazzmine.encryption.states import StateForm
from jazzmine.errors import JazzmineError, LockLostError, LockTimeoutError, StoreUnavailableError
from jazzmine.records.memory_base import set_unvalidated
from jazzmine.records.stored_memory import Data, Lock, Locked, Save, Stored, new_mark
from jazzmine.records.working_memory import WorkingMemory

# What a call makes of what is stored, whose `data` is a working memory that it must not change, or
# None. It returns the new data, None to delete them, or `data` itself to leave them; or it raises.
# It may be called several times.
Decide: TypeAlias = "Callable[[Stored], Data]"

logger: logging.Logger = logging.getLogger(__name__)

# The first and the longest pause, in s, while another call holds the lock.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1

# How long a call that several others have preceded lets them go first before the next one, in s.
_COURTESY = 0.001

# How long the end of a block waits until its lock is released, in s. The lock of a call that was
# given up is released again so much later: the request may have arrived after the first release.
_RELEASE = 0.3
_RELEASED_AGAIN = 0.2

# The length of the JSON of the states that a store remembers; the records take ten times as much
# memory, and the shortest one takes some.
_BYTES_REMEMBERED, _LEAST_REMEMBERED = 8 << 20, 4 << 10

# How often a store sweeps what has expired, at most, in s.
_SWEEPING = 60.0


@dataclass(eq=False)
class Block:
    """A `locked` block."""

    conversation_id: str
    lock: Lock | None = None  # that it may hold
    stored: Stored = field(default_factory=Stored)  # when the lock was taken
    began: float = field(default_factory=monotonic)
    is_over: Event = field(default_factory=Event)  # set when the lock need not be renewed any more


class Updates(Store[WorkingMemoryBackend]):
    """Reads and changes the states of a back end, each change against what is stored.

    A change needs no lock: it is applied to the state that was read last, and written if nobody
    else has written meanwhile; or else it is applied again, to what is stored now. The calls of a
    conversation in this process wait for each other, so that they never conflict.
    """

    #: The class of the working memories; a subclass of the store may name a subclass of it
    #: that sets other limits.
    memory_type: ClassVar[type[WorkingMemory]] = WorkingMemory

    def __init__(self, backend: WorkingMemoryBackend, config: MemoryOptions) -> None:
        super().__init__(backend)
        self._config = config
        self._longest_wait = min(config.lock_timeout, config.timeout)
        self.form: StateForm = StateForm(config.keyring, config.encryption_accepts_plain)
        self._keeps_records = backend.is_in_process and config.keyring is None
        # The deadline of a call stands for the call.
        self._calls: KeyedLocks[Deadline | Block] = KeyedLocks()
        # What was read or saved last, with the length of its JSON; the oldest first.
        self._states: dict[str, tuple[Stored, int]] = {}
        self._states_bytes = 0
        self._mutex = threading.RLock()  # of the states
        self._background_tasks = BackgroundTasks()
        self._next_sweep = Deadline(_SWEEPING * random.random())

    # Reads and changes

    async def _load(self, conversation_id: str, *, renew: bool = False) -> Stored:
        """Return what is stored, not to be changed; with `renew` its time to live starts anew."""
        deadline = call_deadline(self._config.timeout)
        stored = await self.backend.load(conversation_id, deadline, renew=renew)
        return self._parsed(conversation_id, stored)

    async def _change(
        self,
        conversation_id: str,
        decide: Decide,
        *,
        read: Stored | None = None,
        parse: bool = True,
    ) -> tuple[Data, bool]:
        """Change a conversation's state, after the calls before this one.

        What `decide` returns or raises counts only where it was given what is stored at that
        moment. Return what is stored now, and whether this call has changed it.

        Args:
            read: what is stored, if it was read just now.
            parse: whether it needs the working memory; or else `data` is what the back end has.
        """
        deadline = call_deadline(self._config.timeout)
        pauses = _pauses(call_deadline(self._longest_wait))
        attempt = partial(self._attempt, conversation_id, decide, parse)
        result: Save | Stored | None = None
        conflicts = 0  # the first one only tells that this process has not read the latest state
        try:
            if not self._calls.try_acquire(conversation_id, deadline):
                await self._wait_for_others(conversation_id, deadline, deadline)
            stored = read or (self._known_state(conversation_id) if parse else None)
            if stored is not None:
                with suppress(Exception):  # this state may be stored no more
                    result = attempt(stored)
            if not isinstance(result, Save):
                result = attempt(await self.backend.load(conversation_id, deadline))
            while isinstance(result, Save):
                outcome = await self.backend.write(result, attempt, deadline)
                if isinstance(outcome, Save):
                    self._keep(outcome)
                    if conflicts > 1:
                        # Other processes wait, too: one that writes again at once, with the state
                        # that it has, would keep them waiting.
                        await sleep(_COURTESY)
                    return outcome.state, True
                if isinstance(outcome, Locked):
                    await self._pause(conversation_id, outcome, pauses)
                else:
                    conflicts += 1
                    result = attempt(outcome)
            return result.data, False
        finally:
            try:
                self._calls.release(conversation_id, deadline)
            except BaseException:  # Ctrl-C, perhaps before it was released
                self._calls.release(conversation_id, deadline)
                raise

    def _attempt(
        self, conversation_id: str, decide: Decide, parse: bool, stored: Stored
    ) -> Save | Stored:
        """Return the save of what a call makes of what is stored, or this if it leaves it."""
        is_known = not parse or isinstance(stored.data, WorkingMemory)
        now = stored if is_known else self._parsed(conversation_id, stored)
        new = decide(now)
        return now if new is now.data else self._new_save(conversation_id, now, new)

    def _new_save(self, conversation_id: str, stored: Stored, new: Data, token: str = "") -> Save:
        mark, data, user_id = new_mark(), new, stored.user_id
        if isinstance(new, WorkingMemory):
            set_unvalidated(new, version_token=mark, last_updated=time(), confirmed=None)
            data, user_id = new if self._keeps_records else self.form.written(new), new.user_id
        return Save(conversation_id, mark, stored.mark, data, new, user_id, self.form.format, token)

    def _keep(self, save: Save) -> None:
        """Keep what was saved for the next call; now and then sweep what has expired."""
        if isinstance(save.state, WorkingMemory) and isinstance(save.data, bytes):
            stored = Stored(save.mark, save.state, save.user_id)
            self._remember_state(save.conversation_id, stored, len(save.data))
        else:
            self._remember_state(save.conversation_id, None)
        if self.backend.keeps_expired and self._next_sweep.expired:
            self._next_sweep = Deadline(_SWEEPING * random.uniform(0.5, 1.0))
            self._background_tasks.start(self._sweep)

    async def _sweep(self) -> None:
        """Delete what has expired, some at a time; what an error leaves is deleted later."""
        with suppress(OSError, JazzmineError):
            while await self.backend.sweep(Deadline(self._config.timeout)):
                pass

    # Blocks

    async def _lock(self, block: Block) -> Stored:
        """Take the lock of a block's conversation, after the calls before it, and read."""
        conversation_id, deadline = block.conversation_id, call_deadline(self._config.timeout)
        pauses = _pauses(call_deadline(self._longest_wait))
        if not self._calls.try_acquire(conversation_id, block):
            await self._wait_for_others(conversation_id, block, deadline)
        seconds = self._config.lease_seconds
        block.lock = lock = Lock(conversation_id, new_mark(), _this_process(), seconds)
        while isinstance(outcome := await self.backend.lock(lock, deadline), Locked):
            await self._pause(conversation_id, outcome, pauses)
        if not outcome.mark:
            block.lock = None
        elif not self.backend.is_in_process:
            self._background_tasks.start(partial(self._renew, block, lock))
        block.stored = self._parsed(conversation_id, outcome)
        return block.stored

    async def _renew(self, block: Block, lock: Lock) -> None:
        """Renew the lock until the block is over; a renewal that comes later does no harm."""
        while not await block.is_over.wait(lock.seconds / 3):
            renewal = lock._replace(renews=True)
            try:
                outcome = await self.backend.lock(renewal, Deadline(lock.seconds))
            except Exception as error:
                logger.warning("%r: the lock was not renewed: %s", block.conversation_id, error)
            else:
                if not isinstance(outcome, Stored) or outcome.mark != block.stored.mark:
                    return  # it is lost

    async def _save_block(self, block: Block, memory: WorkingMemory) -> None:
        """Save the state of a block, which releases its lock; or raise `LockLostError`."""
        block.is_over.set()
        token = "" if block.lock is None else block.lock.token
        save = self._new_save(block.conversation_id, block.stored, memory, token)
        deadline = Deadline(self._config.timeout)
        outcome = await self.backend.write(save, lambda stored: stored, deadline)
        if not isinstance(outcome, Save):
            self._remember_state(block.conversation_id, None)
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
        self._keep(save)

    async def _end_block(self, block: Block) -> None:
        """Release the lock of a block that has not saved, and let the next call go."""
        try:
            block.is_over.set()
            if block.lock is not None:
                unlock = partial(self._unlock, block.lock)
                await self._background_tasks.start(unlock).wait(_RELEASE)
                if not block.stored.mark:
                    self._background_tasks.start(partial(unlock, _RELEASED_AGAIN))
        finally:
            self._calls.release(block.conversation_id, block)

    async def _unlock(self, lock: Lock, after: float = 0.0) -> None:
        with suppress(Exception):  # then it is left to expire
            await sleep(after)
            await self.backend.lock(lock._replace(seconds=0, renews=True), Deadline(1.0))

    async def _wait_for_others(
        self, conversation_id: str, call: Deadline | Block, deadline: Deadline
    ) -> None:
        """Wait for the calls of this process on the same conversation."""
        free_by = call_deadline(self._longest_wait)
        if not await self._calls.acquire(conversation_id, call, free_by.remaining()):
            holder = self._calls.holder(conversation_id)
            if isinstance(holder, Block):
                held = Locked(_this_process(), monotonic() - holder.began)
                raise self._not_free(conversation_id, held)
            if not await self._calls.acquire(conversation_id, call, deadline.remaining()):
                raise StoreUnavailableError(
                    f"the calls before this one on conversation {conversation_id!r} did not end"
                    f" within {self._config.timeout:g} s"
                )
        self.require_open()  # the store may have been closed while this waited

    async def _pause(self, conversation_id: str, locked: Locked, pauses: Iterator[float]) -> None:
        """Wait for a moment while another call holds the lock."""
        pause = next(pauses, None)
        if pause is None:
            raise self._not_free(conversation_id, locked)
        await sleep(pause)
        self.require_open()

    def _not_free(self, conversation_id: str, locked: Locked) -> LockTimeoutError:
        who, advice = locked.holder, ""
        if who == _this_process():
            who = "a block of this process"
            advice = "; in a locked() block use the methods of its working memory, not the store's"
        return LockTimeoutError(
            f"the lock of conversation {conversation_id!r} was not free within"
            f" {self._longest_wait:g} s: {who} has held it for {locked.held_for:.1f} s{advice}"
        )

    def _parsed(self, conversation_id: str, stored: Stored) -> Stored:
        """Return what is stored with its working memory, and keep it for the next call.

        One that cannot be read counts as none, and the next save replaces it.
        """
        data = stored.data
        if not isinstance(data, bytes):
            return stored
        known = self._known_state(conversation_id)
        if known is not None and known.mark == stored.mark:
            return known
        memory = self.form.read(conversation_id, stored, self.memory_type)
        if memory is not None:
            set_unvalidated(memory, version_token=stored.mark)
        parsed = stored._replace(data=memory)
        self._remember_state(conversation_id, parsed, len(data))
        return parsed

    def _known_state(self, conversation_id: str) -> Stored | None:
        """Return what was stored when it was read or saved last, if it is remembered."""
        stored, _ = self._states.get(conversation_id, (None, 0))
        return stored

    def _remember_state(self, conversation_id: str, stored: Stored | None, size: int = 0) -> None:
        """Remember what is stored, whose JSON is `size` bytes long; None forgets it."""
        with self._mutex:
            self._states_bytes -= self._states.pop(conversation_id, (None, 0))[1]
            if stored is not None:
                # The state is not all that takes memory.
                self._states[conversation_id] = stored, size + _LEAST_REMEMBERED
                self._states_bytes += size + _LEAST_REMEMBERED
            while self._states_bytes > _BYTES_REMEMBERED and len(self._states) > 1:
                self._states_bytes -= self._states.pop(next(iter(self._states)))[1]


def _pauses(free_by: Deadline) -> Iterator[float]:
    """Yield growing pauses, until a deadline."""
    for pause in backoff(_FIRST_PAUSE, _LONGEST_PAUSE):
        if free_by.expired:
            return
        yield min(pause, free_by.remaining())


def _this_process() -> str:
    """Return how the lock of a block of this process names its holder."""
    return f"process {os.getpid()} on {platform.node()}"
