"""How a conversation's working memory is read, changed and locked, on every back end."""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from time import monotonic
from typing import TypeVar

from pydantic import ValidationError

from jazzmine._async.background import BackgroundTasks
from jazzmine._async.keyed_locks import KeyedLocks
from jazzmine._async.working_memory.backend import (
    Lock,
    Locked,
    Mark,
    Save,
    Stored,
    WorkingMemoryBackend,
    Written,
)
from jazzmine._async.working_memory.calls import Block, Call, Change, Decide
from jazzmine._compat.concurrency import AsyncWork as Work
from jazzmine._compat.concurrency import async_sleep as sleep
from jazzmine.config import MemoryOptions
from jazzmine.deadline import Deadline, backoff
from jazzmine.encryption.states import StateForm
from jazzmine.errors import (
    LockLostError,
    LockTimeoutError,
    StoreClosedError,
    StoreUnavailableError,
)
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["Updates"]

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

# Of how many conversations the state is remembered, and the last request that was given up.
_STATES_KEPT, _DOUBTS_KEPT = 1_000, 10_000

# The first and the longest pause, in s, while another process holds the lock.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1

# For how long, in s, calls pause after others have saved meanwhile, and the longest such pause.
_CONTESTED, _COURTESY = 0.2, 0.005


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
        self.after_fork()

    def after_fork(self) -> None:
        """Begin anew: the calls of a parent never end in a forked process."""
        self._store, self._numbers = os.urandom(12).hex(), count(1)
        self._calls: KeyedLocks[Call] = KeyedLocks()
        self._known: dict[str, Stored] = {}
        self._contested: dict[str, Deadline] = {}
        self._doubtful: dict[str, Mark] = {}  # requests that were given up and may be done yet
        self._mutex = threading.RLock()  # held to change that; a signal handler may call the store
        self._background_tasks = BackgroundTasks()

    async def close(self) -> None:
        """Release the locks of blocks, which then cannot save any more."""
        for call in self._calls.holders():
            if isinstance(call, Block) and call.lock is not None:
                # The save of a block that ends now has a later number, and may still be done.
                unlock = partial(self._take_back, call.conversation_id, call.lock.mark)
                self._background_tasks.start(partial(unlock, Deadline(1.0)))
        await self._background_tasks.close(timeout=1.0)

    # Reads and changes

    async def load(self, conversation_id: str, *, renew: bool = False) -> Stored:
        """Return what is stored, with a working memory that must not be changed; wait for no call.

        Args:
            renew: whether its time to live starts anew.
        """
        deadline = Deadline(self._config.timeout)
        stored = await self._load(conversation_id, deadline, renew=renew)
        return await self._readable(conversation_id, stored, deadline)

    async def settle(self) -> None:
        """Take back all that was given up: what is not done by then is never done."""
        for conversation_id in tuple(self._doubtful):
            await self._load(conversation_id, Deadline(self._config.timeout))

    def known(self, conversation_id: str) -> Stored | None:
        """Return what was stored when it was read or written last, if that is remembered."""
        return self._known.get(conversation_id)

    async def change(
        self,
        conversation_id: str,
        decide: Decide,
        *,
        read: Stored | None = None,
        parse: bool = True,
    ) -> tuple[Stored, Change | None]:
        """Change a conversation's state, after the calls before this one.

        Args:
            decide: what is to be done. What it returns or raises counts only where it was given
                what is stored at that moment.
            read: what is stored, if it was read just now.
            parse: whether it needs the working memory; or else `data` is what the back end has.

        Returns:
            What was stored, and the change that was written; None if there was nothing to change.
        """
        deadline = Deadline(self._config.timeout)
        call = Call(conversation_id, deadline, Deadline(self._longest_wait))
        try:
            await self._wait_for_others(call)
            outcome = await self._change(call, decide, read, parse)
            self._end(call)
        except BaseException:  # also if the end was interrupted
            self._end(call)
            raise
        return outcome

    async def _change(
        self, call: Call, decide: Decide, stored: Stored | None, parse: bool
    ) -> tuple[Stored, Change | None]:
        conversation_id = call.conversation_id
        if stored is None and parse:
            stored = self._known.get(conversation_id)
        if conversation_id in self._contested:
            await self._let_others_go_first(conversation_id)
        is_current, change = False, None

        def again(now: Stored) -> Save | None:
            nonlocal stored, change
            try:
                stored = self._parsed(conversation_id, now) if parse else now
                change = decide(stored)
            except BaseException:
                return None  # it is raised when it is applied to that outside of a transaction
            return change and Save(conversation_id, mark, stored.mark, change.memory, self._form)

        while True:
            if stored is None:
                stored = await self._load(conversation_id, call.deadline)
                if parse:
                    stored = await self._readable(conversation_id, stored, call.deadline)
                is_current = True
            try:
                change = decide(stored)
            except Exception:
                if is_current:
                    raise
                change = None
            if change is None:
                if is_current:
                    return stored, None
                stored = None
                continue
            mark = call.mark = self._next_mark()
            save = Save(conversation_id, mark, stored.mark, change.memory, self._form)
            request = partial(self._backend.write, save, again, call.deadline)
            written = await self._when_free(call, request)
            if isinstance(written, Written):
                self._note_written(call, mark, change)
                return stored, change
            stored, is_current = written, True
            if parse:
                stored = await self._readable(conversation_id, stored, call.deadline)
            _remember(self._contested, conversation_id, Deadline(_CONTESTED), _STATES_KEPT)

    async def _let_others_go_first(self, conversation_id: str) -> None:
        """Pause if other processes have saved just now.

        The one that has saved last is quicker than those that have to read first: it would keep
        them waiting.
        """
        contested = self._contested.get(conversation_id)
        if contested is None or contested.expired:
            self._contested.pop(conversation_id, None)
        else:
            await sleep(random.uniform(0.0, _COURTESY))

    # Blocks

    def begin_block(self, conversation_id: str) -> Block:
        """Return a block, which has no lock yet."""
        deadline = Deadline(self._config.timeout)
        return Block(conversation_id, deadline, Deadline(self._longest_wait))

    async def lock(self, block: Block) -> Stored:
        """Take the lock of a block's conversation, after the calls before it, and read."""
        await self._wait_for_others(block)
        if block.conversation_id in self._doubtful:  # a late save would be the end of the block
            await self._load(block.conversation_id, block.deadline)
        seconds, mark = self._config.lease_seconds, self._next_mark()
        lock = Lock(block.conversation_id, mark, _this_process(), seconds)
        block.mark, block.lock = mark, lock
        request = partial(self._backend.lock, block.lock, block.deadline)
        stored = await self._when_free(block, request)
        assert isinstance(stored, Stored)
        if not stored.exists:
            block.lock = None
        block.stored = await self._readable(block.conversation_id, stored, block.deadline)
        return block.stored

    async def renew(self, block: Block) -> bool:
        """Let the lock last longer, or take it again if it has expired; False if it is lost."""
        lock = block.lock
        if lock is None:
            return False
        try:
            renewed = lock._replace(renews=True)
            outcome = await self._backend.lock(renewed, Deadline(lock.seconds))
        except Exception as error:
            if block.lock is not None:
                logger.warning("%r: the lock was not renewed: %s", block.conversation_id, error)
            return block.lock is not None
        if isinstance(outcome, Locked) or outcome.mark != block.stored.mark:
            if block.lock is not None:
                logger.warning("%r: the lock was lost while it was held", block.conversation_id)
            return False
        return True

    async def save_block(self, block: Block, memory: WorkingMemory) -> None:
        """Save the state of a block, which releases its lock, and let the next call go.

        Raises:
            LockLostError: what was read is not stored any more, or somebody else holds the lock.
        """
        block.deadline = Deadline(self._config.timeout)
        mark = block.mark = self._next_mark()
        save = Save(block.conversation_id, mark, block.stored.mark, memory, self._form)
        outcome = await self._backend.write(save, lambda _: None, block.deadline)
        if not isinstance(outcome, Written):
            self._known.pop(block.conversation_id, None)
            if isinstance(outcome, Locked):
                reason = f"its lock expired, and {outcome.holder} holds it now"
            elif outcome.exists:
                reason = "its lock expired, and another call has saved since"
            else:
                reason = "its working memory was deleted meanwhile, or has expired (ttl_seconds)"
            raise LockLostError(
                f"the block of conversation {block.conversation_id!r} has lost what it locked:"
                f" {reason}; nothing was written"
            )
        block.lock = None
        self._note_written(block, mark, Change(memory))
        self._end(block)

    async def abandon_block(self, block: Block, error: BaseException) -> None:
        """Release the lock of a block that has not saved, and let the next call go.

        Args:
            error: what was raised. A call that was cancelled, or whose server has failed, does not
                wait for the server.
        """
        lock, block.lock = block.lock, None
        self._note_doubt(block)
        try:
            if lock is not None and not isinstance(error, StoreClosedError):
                failed = isinstance(error, StoreUnavailableError)
                cancelled = not isinstance(error, Exception)
                longest = Deadline(0.3 if failed else min(1.0, self._config.timeout))
                mark = block.mark or lock.mark
                unlock = partial(self._take_back, block.conversation_id, mark, longest)
                if failed:
                    self._background_tasks.start(unlock)
                else:
                    await self._background_tasks.run(unlock, wait=not cancelled)
        finally:
            self._calls.release(block.conversation_id, block)

    async def _take_back(self, conversation_id: str, mark: Mark, deadline: Deadline) -> None:
        """Take back a block's requests up to this one, and with them its lock."""
        try:
            await self._backend.load(conversation_id, deadline, taken_back=mark)
            self._forget_doubt(conversation_id, mark)
        except Exception as error:
            logger.debug("%r: the lock is left to expire: %s", conversation_id, error)

    # Steps of both

    async def _wait_for_others(self, call: Call) -> None:
        """Wait for the calls of this process on the same conversation."""
        conversation_id = call.conversation_id
        if self._calls.try_acquire(conversation_id, call):
            return
        for other in self._calls.owners(conversation_id):
            if other.caller == call.caller and not isinstance(other, Block):
                raise RuntimeError(
                    f"a call about conversation {conversation_id!r} was made within another one, by"
                    " a signal handler: it would wait for itself"
                )
        if not await self._calls.acquire(conversation_id, call, call.waits_until.remaining()):
            holder = self._calls.holder(conversation_id)
            if isinstance(holder, Block):
                held_for = monotonic() - holder.began
                raise self._not_free(conversation_id, _this_process(), held_for)
            if not await self._calls.acquire(conversation_id, call, call.deadline.remaining()):
                raise StoreUnavailableError(
                    f"the calls before this one on conversation {conversation_id!r} did not end"
                    f" within {self._config.timeout:g} s"
                )
        self._check()  # the store may have been closed while this waited

    async def _when_free(
        self, call: Call, request: Work[Written | Stored | Locked]
    ) -> Written | Stored:
        """Send a request until no other store holds the lock."""
        pauses = None
        while isinstance(outcome := await request(), Locked):
            if call.waits_until.expired:
                raise self._not_free(call.conversation_id, outcome.holder, outcome.held_for)
            pauses = pauses or backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
            await sleep(min(next(pauses), call.waits_until.remaining()))
            self._check()
        return outcome

    def _not_free(self, conversation_id: str, holder: str, held_for: float) -> LockTimeoutError:
        who, advice = holder, ""
        if holder == _this_process():
            who = "a block of this process"
            advice = "; in a locked() block use the methods of its working memory, not the store's"
        return LockTimeoutError(
            f"the lock of conversation {conversation_id!r} was not free within"
            f" {self._longest_wait:g} s: {who} has held it for {held_for:.1f} s{advice}"
        )

    def _next_mark(self) -> Mark:
        return Mark(self._store, next(self._numbers))

    def _end(self, call: Call) -> None:
        """Let the next call on the conversation go; this may be repeated."""
        self._note_doubt(call)
        self._calls.release(call.conversation_id, call)

    def _note_doubt(self, call: Call) -> None:
        """Note the last request of a call that has not written: it may be done yet."""
        if call.mark is not None:
            with self._mutex:
                _remember(self._doubtful, call.conversation_id, call.mark, _DOUBTS_KEPT)

    def _forget_doubt(self, conversation_id: str, mark: Mark) -> None:
        """Forget a request that a later one, or this one, has cancelled."""
        with self._mutex:
            if self._doubtful.get(conversation_id, mark).number <= mark.number:
                self._doubtful.pop(conversation_id, None)

    def _note_written(self, call: Call, mark: Mark, change: Change) -> None:
        call.mark = None
        if call.conversation_id in self._doubtful:
            self._forget_doubt(call.conversation_id, mark)
        self._note_state(call.conversation_id, Stored(str(mark), change.memory))

    def _note_state(self, conversation_id: str, stored: Stored) -> None:
        if stored.exists:
            _remember(self._known, conversation_id, stored, _STATES_KEPT)
        else:
            self._known.pop(conversation_id, None)

    async def _load(
        self, conversation_id: str, deadline: Deadline, *, renew: bool = False
    ) -> Stored:
        """Return what is stored, and take back what was given up, in the same round trip."""
        doubt = self._doubtful.get(conversation_id)
        stored = await self._backend.load(conversation_id, deadline, taken_back=doubt, renew=renew)
        if doubt is not None:
            self._forget_doubt(conversation_id, doubt)
        return stored

    async def _readable(self, conversation_id: str, stored: Stored, deadline: Deadline) -> Stored:
        """Return what is stored, parsed; one that cannot be read is moved out of the way."""
        reason = stored.problem
        if not reason:
            try:
                parsed = self._parsed(conversation_id, stored)
                self._note_state(conversation_id, parsed)
                return parsed
            except ValidationError as error:
                reason = "; ".join(f"{e['type']} at {e['loc']}" for e in error.errors()[:3])
        place = await self._backend.set_aside(conversation_id, stored.mark, deadline)
        logger.error(
            "the working memory of conversation %r cannot be read (%s): it is kept for 7 days at"
            " %s, and the conversation starts anew",
            conversation_id,
            reason,
            place,
        )
        return Stored()

    def _parsed(self, conversation_id: str, stored: Stored) -> Stored:
        """Return what is stored with its working memory, which is parsed unless it is known."""
        if not isinstance(stored.data, bytes):
            return stored
        known = self._known.get(conversation_id)
        if known is not None and known.mark == stored.mark:
            return known
        memory = self._form.read(stored.data, conversation_id, stored.user_id, self._memory_type)
        return stored._replace(data=memory)


def _remember(known: dict[str, T], conversation_id: str, latest: T, most: int) -> None:
    """Note something of a conversation, and forget the oldest if there is a lot."""
    known.pop(conversation_id, None)
    known[conversation_id] = latest
    if len(known) > most:
        with suppress(KeyError, RuntimeError):  # another thread was faster
            del known[next(iter(known))]


def _this_process() -> str:
    """Return how the lock of a block of this process names its holder."""
    return f"process {os.getpid()} on {os.uname().nodename}"
