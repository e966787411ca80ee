"""How a conversation's working memory is read, changed and locked, on every back end."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Callable
from functools import partial
from time import monotonic

from pydantic import ValidationError

from jazzmine._sync.background import BackgroundTasks
from jazzmine._sync.keyed_locks import KeyedLocks
from jazzmine._sync.working_memory.backend import (
    Lock,
    Locked,
    Save,
    Stored,
    WorkingMemoryBackend,
    Written,
    new_mark,
)
from jazzmine._sync.working_memory.changes import Block, Change, Decide
from jazzmine._sync.working_memory.known_states import KnownStates
from jazzmine._compat.concurrency import SyncWork as Work
from jazzmine._compat.concurrency import sync_sleep as sleep
from jazzmine.config import MemoryOptions
from jazzmine.deadline import Deadline, backoff, call_deadline
from jazzmine.encryption.states import StateForm
from jazzmine.errors import (
    LockLostError,
    LockTimeoutError,
    StoreClosedError,
    StoreUnavailableError,
)
from jazzmine.records.memory_base import set_unvalidated
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["Updates"]

logger: logging.Logger = logging.getLogger(__name__)

# The first and the longest pause, in s, while another call holds the lock.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1

# How long a call that several others have preceded lets them go first before the next one, in s.
_COURTESY = 0.001


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
        self._background_tasks = BackgroundTasks()

    def close(self) -> None:
        """Release the locks of blocks, which then cannot save any more."""
        for call in self._calls.holders():
            if isinstance(call, Block) and call.lock is not None:
                unlock = partial(self._unlock, call.lock, Deadline(1.0))
                self._background_tasks.start(unlock)
        self._background_tasks.close(timeout=1.0)

    # Reads and changes

    def load(self, conversation_id: str, *, renew: bool = False) -> Stored:
        """Return what is stored, with a working memory that must not be changed; wait for no call.

        Args:
            renew: whether its time to live starts anew.
        """
        deadline = call_deadline(self._config.timeout)
        stored = self._backend.load(conversation_id, deadline, renew=renew)
        return self._remembered(conversation_id, stored)

    def change(
        self,
        conversation_id: str,
        decide: Decide,
        *,
        read: Stored | None = None,
        parse: bool = True,
    ) -> tuple[WorkingMemory | None, bool]:
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
        change: Change | None = None
        save: Save
        conflicts = 0  # the first one only tells that this process has not read the latest state

        def again(now: Stored) -> Save | None:
            nonlocal stored, change, save
            try:
                stored = self._remembered(conversation_id, now, parse)
                change = decide(stored)
            except BaseException:
                return None  # it is raised when it is applied to that outside of a transaction
            if change is not None:
                save = self._new_save(conversation_id, stored, change)
            return change and save

        try:
            if not self._calls.try_acquire(conversation_id, deadline):
                self._wait_for_others(conversation_id, deadline, deadline)
            if stored is None and parse:
                stored = self.known.get(conversation_id)
            while True:
                if stored is None:
                    stored = self._backend.load(conversation_id, deadline)
                    stored = self._remembered(conversation_id, stored, parse)
                    is_current = True
                try:
                    change = decide(stored)
                except Exception:
                    if is_current:
                        raise
                    change = None
                if change is None:
                    if is_current:
                        return _memory_of(stored), False
                    stored = None
                    continue
                save = self._new_save(conversation_id, stored, change)
                outcome = self._backend.write(save, again, deadline)
                if isinstance(outcome, Locked):
                    request = partial(self._backend.write, save, again, deadline)
                    free_by = call_deadline(self._longest_wait)
                    outcome = self._when_free(conversation_id, outcome, request, free_by)
                if isinstance(outcome, Written):
                    mark = "" if save.data is None else save.mark
                    new = Stored(mark, change.memory, save.user_id)
                    self.known.keep(conversation_id, new, save.data)
                    if conflicts > 1:
                        # Other processes wait, too: one that writes again at once, with the state
                        # that it has, would keep them waiting.
                        sleep(_COURTESY)
                    return change.memory, True
                stored = self._remembered(conversation_id, outcome, parse)
                is_current, conflicts = True, conflicts + 1
        finally:
            try:
                self._calls.release(conversation_id, deadline)
            except BaseException:  # Ctrl-C, perhaps before it was released
                self._calls.release(conversation_id, deadline)
                raise

    def _new_save(
        self, conversation_id: str, stored: Stored, change: Change, token: str = ""
    ) -> Save:
        mark, memory = new_mark(), change.memory
        if memory is None:
            return Save(conversation_id, mark, stored.mark, None, token=token)
        set_unvalidated(memory, version_token=mark, confirmed=None)
        is_kept = self._backend.is_in_process and self._form.keyring is None
        data = memory if is_kept else self._form.written(memory)
        user_id, number = memory.user_id, self._form.format
        return Save(conversation_id, mark, stored.mark, data, user_id, number, token)

    # Blocks

    def begin_block(self, conversation_id: str) -> Block:
        """Return a block, which has no lock yet."""
        return Block(conversation_id, call_deadline(self._longest_wait))

    def lock(self, block: Block) -> Stored:
        """Take the lock of a block's conversation, after the calls before it, and read."""
        conversation_id, deadline = block.conversation_id, call_deadline(self._config.timeout)
        if not self._calls.try_acquire(conversation_id, block):
            self._wait_for_others(conversation_id, block, deadline)
        seconds = self._config.lease_seconds
        block.lock = Lock(conversation_id, new_mark(), _this_process(), seconds)
        stored: Written | Stored | Locked = self._backend.lock(block.lock, deadline)
        if isinstance(stored, Locked):
            request = partial(self._backend.lock, block.lock, deadline)
            stored = self._when_free(conversation_id, stored, request, block.free_by)
        assert isinstance(stored, Stored)
        if not stored.mark:
            block.lock = None
        block.stored = self._remembered(conversation_id, stored)
        return block.stored

    def renew(self, block: Block) -> bool:
        """Let the lock last longer; False if it is lost."""
        lock = block.lock
        if lock is None:
            return False
        deadline, pauses = Deadline(lock.seconds), backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while block.lock is not None:
            try:
                outcome = self._backend.lock(lock._replace(renews=True), deadline)
            except Exception as error:
                if deadline.expired:
                    logger.warning("%r: the lock was not renewed: %s", block.conversation_id, error)
                    return False
                sleep(next(pauses))
                continue
            return isinstance(outcome, Stored) and outcome.mark == block.stored.mark
        return False

    def save_block(self, block: Block, memory: WorkingMemory) -> None:
        """Save the state of a block, which releases its lock, and let the next call go.

        Raises:
            LockLostError: what was read is not stored any more, or somebody else holds the lock.
        """
        token = "" if block.lock is None else block.lock.token
        save = self._new_save(block.conversation_id, block.stored, Change(memory), token)
        outcome = self._backend.write(save, lambda _: None, Deadline(self._config.timeout))
        if not isinstance(outcome, Written):
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
        new = Stored(save.mark, memory, save.user_id)
        self.known.keep(block.conversation_id, new, save.data)
        self._calls.release(block.conversation_id, block)

    def abandon_block(self, block: Block, error: BaseException | None = None) -> None:
        """Release the lock of a block that has not saved, and let the next call go.

        Args:
            error: what was raised, if anything. A call that was cancelled, or whose server has
                failed, does not wait for the server.
        """
        lock, block.lock = block.lock, None
        try:
            if lock is not None and not isinstance(error, StoreClosedError):
                failed = isinstance(error, StoreUnavailableError)
                longest = Deadline(0.3 if failed else min(1.0, self._config.timeout))
                unlock = partial(self._unlock, lock, longest)
                if failed:
                    self._background_tasks.start(unlock)
                else:
                    wait = error is None or isinstance(error, Exception)
                    self._background_tasks.run(unlock, wait=wait)
        finally:
            self._calls.release(block.conversation_id, block)

    def _unlock(self, lock: Lock, deadline: Deadline) -> None:
        try:
            self._backend.unlock(lock.conversation_id, lock.token, deadline)
        except Exception as error:
            logger.debug("%r: the lock is left to expire: %s", lock.conversation_id, error)

    # Steps of both

    def _wait_for_others(
        self, conversation_id: str, call: Deadline | Block, deadline: Deadline
    ) -> None:
        """Wait for the calls of this process on the same conversation."""
        free_by = call.free_by if isinstance(call, Block) else call_deadline(self._longest_wait)
        if not self._calls.acquire(conversation_id, call, free_by.remaining()):
            holder = self._calls.holder(conversation_id)
            if isinstance(holder, Block):
                held_for = monotonic() - holder.began
                raise self._not_free(conversation_id, _this_process(), held_for)
            if not self._calls.acquire(conversation_id, call, deadline.remaining()):
                raise StoreUnavailableError(
                    f"the calls before this one on conversation {conversation_id!r} did not end"
                    f" within {self._config.timeout:g} s"
                )
        self._check()  # the store may have been closed while this waited

    def _when_free(
        self,
        conversation_id: str,
        outcome: Locked,
        request: Work[Written | Stored | Locked],
        free_by: Deadline,
    ) -> Written | Stored:
        """Repeat a request until no other call holds the lock."""
        pauses = backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        answer: Written | Stored | Locked = outcome
        while isinstance(answer, Locked):
            seconds = free_by.remaining()
            if not seconds:
                raise self._not_free(conversation_id, answer.holder, answer.held_for)
            sleep(min(next(pauses), seconds))
            self._check()
            answer = request()
        return answer

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
        if not parse:
            return stored
        known = self.known.get(conversation_id)
        if known is not None and known.mark == stored.mark:
            return known
        memory = self._parsed(conversation_id, stored) if stored.mark else None
        return self.known.keep(conversation_id, stored._replace(data=memory), stored.data)

    def _parsed(self, conversation_id: str, stored: Stored) -> WorkingMemory | None:
        data, reason = stored.data, "there is no state"
        if isinstance(data, bytes):
            try:
                data = self._form.read(data, conversation_id, stored.user_id, self._memory_type)
                set_unvalidated(data, version_token=stored.mark)
            except ValidationError as error:
                data = None
                reason = "; ".join(f"{e['type']} at {e['loc']}" for e in error.errors()[:3])
        if data is None:
            logger.error(
                "the working memory of conversation %r cannot be read (%s): the conversation"
                " starts anew",
                conversation_id,
                reason,
            )
        return data


def _memory_of(stored: Stored) -> WorkingMemory | None:
    return stored.data if isinstance(stored.data, WorkingMemory) else None


def _this_process() -> str:
    """Return how the lock of a block of this process names its holder."""
    return f"process {os.getpid()} on {platform.node()}"
