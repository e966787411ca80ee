"""How a conversation's working memory is read, changed and locked, on every back end."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from threading import get_ident
from time import monotonic
from typing import TypeVar

from pydantic import ValidationError

from jazzmine._sync.background import BackgroundTasks
from jazzmine._sync.keyed_locks import KeyedLocks
from jazzmine._sync.working_memory.backend import (
    Lock,
    Locked,
    Mark,
    Save,
    Stored,
    WorkingMemoryBackend,
    Written,
)
from jazzmine._sync.working_memory.calls import Block, Call, Change, Decide, Limits
from jazzmine._compat.sync_concurrency import Work, sleep
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

# Of how many conversations the state is remembered, and the request whose outcome is unknown.
_STATES_KEPT, _REQUESTS_KEPT = 100, 1000

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
        limits: the times of the store.
        check: raises if the store was closed.
        form: how a state is written and read.
    """

    def __init__(
        self,
        backend: WorkingMemoryBackend,
        memory_type: type[WorkingMemory],
        limits: Limits,
        check: Callable[[], None],
        form: StateForm,
    ) -> None:
        self._backend = backend
        self._memory_type = memory_type
        self._limits = limits
        self._check = check
        self._form = form
        self.after_fork()

    def after_fork(self) -> None:
        """Begin anew: the calls of a parent never end in a forked process."""
        self._store, self._numbers = os.urandom(12).hex(), count(1)
        self._calls: KeyedLocks[Call] = KeyedLocks()
        self._known: dict[str, Stored] = {}
        self._contested: dict[str, Deadline] = {}
        self._doubtful: dict[str, Call] = {}  # their last request may take effect yet
        self._background_tasks = BackgroundTasks()

    def close(self) -> None:
        """Release the locks of blocks, which then cannot save any more."""
        for call in self._calls.holders():
            if isinstance(call, Block) and call.lock is not None:
                self._background_tasks.start(partial(self._unlock, call, Deadline(1.0)))
        self._background_tasks.close(timeout=1.0)

    # Reads and changes

    def load(
        self, conversation_id: str, *, renew: bool = False, viewer: str | None = None
    ) -> Stored:
        """Return what is stored, with a working memory that must not be changed; wait for no call.

        Args:
            renew: whether its time to live starts anew.
            viewer: the user who may see it; of another user's nothing but `user_id` is returned,
                and it is not parsed. None is anybody.
        """
        deadline = Deadline(self._limits.timeout)
        return self._load(conversation_id, deadline, renew=renew, viewer=viewer)

    def known(self, conversation_id: str) -> Stored | None:
        """Return what was stored when it was read or written last, if that is remembered."""
        return self._known.get(conversation_id)

    def change(
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
        deadline = Deadline(self._limits.timeout)
        call = Call(conversation_id, deadline, Deadline(self._limits.longest_wait))
        try:
            self._wait_for_others(call)
            outcome = self._change(call, decide, read, parse)
            self._calls.release(conversation_id, call)
        except BaseException:  # also if the release was interrupted
            self._calls.release(conversation_id, call)
            raise
        return outcome

    def _change(
        self, call: Call, decide: Decide, stored: Stored | None, parse: bool
    ) -> tuple[Stored, Change | None]:
        conversation_id = call.conversation_id
        # A request whose outcome is unknown is taken back before anything else is written.
        if conversation_id in self._doubtful:
            stored = None
        elif stored is None and parse:
            stored = self._known.get(conversation_id)
        if conversation_id in self._contested:
            self._let_others_go_first(conversation_id)
        is_current, change = False, None

        def again(now: Stored) -> Save | None:
            nonlocal stored, change
            try:
                stored = self._parsed(conversation_id, now) if parse else now
                change = call.apply(decide, stored)
            except Exception:
                return None  # it is raised when it is applied to that outside of a transaction
            return change and Save(conversation_id, mark, stored.mark, change.memory, self._form)

        while True:
            if stored is None:
                stored = self._load(conversation_id, call.deadline, call, parse=parse)
                is_current = True
            try:
                change = call.apply(decide, stored)
            except Exception:
                if is_current:
                    raise
                change = None
            if change is None:
                if is_current:
                    return stored, None
                stored = None
                continue
            mark = self._next_mark(call)
            save = Save(conversation_id, mark, stored.mark, change.memory, self._form)
            request = partial(self._backend.write, save, again, call.deadline)
            written = self._when_free(call, request)
            if isinstance(written, Written):
                self._note_written(mark, conversation_id, change)
                return stored, change
            self._doubtful.pop(conversation_id, None)  # what it has read is not stored any more
            stored, is_current = written, True
            if parse:
                stored = self._readable(conversation_id, stored, call.deadline)
            _remember(self._contested, conversation_id, Deadline(_CONTESTED), _STATES_KEPT)

    def _let_others_go_first(self, conversation_id: str) -> None:
        """Pause if other processes have saved just now.

        The one that has saved last is quicker than those that have to read first: it would keep
        them waiting.
        """
        contested = self._contested.get(conversation_id)
        if contested is None or contested.expired:
            self._contested.pop(conversation_id, None)
        else:
            sleep(random.uniform(0.0, _COURTESY))

    # Blocks

    def begin_block(self, conversation_id: str) -> Block:
        """Return a block, which has no lock yet."""
        deadline = Deadline(self._limits.timeout)
        return Block(conversation_id, deadline, Deadline(self._limits.longest_wait))

    def lock(self, block: Block) -> Stored:
        """Take the lock of a block's conversation, after the calls before it, and read."""
        self._wait_for_others(block)
        if block.conversation_id in self._doubtful:  # a late save would be the end of the block
            self._load(block.conversation_id, block.deadline, block)
        seconds = self._limits.lease_seconds
        block.lock = Lock(block.conversation_id, self._next_mark(block), _this_process(), seconds)
        request = partial(self._backend.lock, block.lock, block.deadline)
        stored = self._when_free(block, request)
        assert isinstance(stored, Stored)
        self._doubtful.pop(block.conversation_id, None)
        if not stored.exists:
            block.lock = None
        block.stored = self._readable(block.conversation_id, stored, block.deadline)
        return block.stored

    def renew(self, block: Block) -> bool:
        """Let the lock last longer, or take it again if it has expired; False if it is lost."""
        lock = block.lock
        if lock is None:
            return False
        try:
            outcome = self._backend.lock(lock, Deadline(lock.seconds))
        except Exception as error:
            if block.lock is not None:
                logger.warning("%r: the lock was not renewed: %s", block.conversation_id, error)
            return block.lock is not None
        if isinstance(outcome, Locked) or outcome.mark != block.stored.mark:
            logger.warning("%r: the lock was lost while it was held", block.conversation_id)
            return False
        return True

    def save_block(self, block: Block, memory: WorkingMemory) -> None:
        """Save the state of a block, which releases its lock, and let the next call go.

        Raises:
            LockLostError: the lock has expired, and somebody else has saved or locked since.
        """
        block.deadline = Deadline(self._limits.timeout)
        mark = self._next_mark(block)
        save = Save(block.conversation_id, mark, block.stored.mark, memory, self._form)
        outcome = self._backend.write(save, lambda _: None, block.deadline)
        self._doubtful.pop(block.conversation_id, None)
        if not isinstance(outcome, Written):
            self._known.pop(block.conversation_id, None)
            raise LockLostError(
                f"the lock of conversation {block.conversation_id!r} expired while it was held"
                f" (it lasts {self._limits.lease_seconds:g} s unless it is renewed), and another"
                " call has saved or locked since: nothing was written"
            )
        block.lock = None
        self._note_written(mark, block.conversation_id, Change(memory))
        self._calls.release(block.conversation_id, block)

    def abandon_block(self, block: Block, error: BaseException) -> None:
        """Release the lock of a block that has not saved, and let the next call go.

        Args:
            error: what was raised. A call that was cancelled, or whose server has failed, does not
                wait for the server.
        """
        lock, block.lock = block.lock, None
        try:
            if lock is not None and not isinstance(error, StoreClosedError):
                failed = isinstance(error, StoreUnavailableError)
                cancelled = not isinstance(error, Exception)
                longest = 0.3 if failed else min(1.0, self._limits.timeout)
                unlock = partial(self._unlock, block, Deadline(longest))
                if failed:
                    self._background_tasks.start(unlock)
                else:
                    self._background_tasks.run(unlock, wait=not cancelled)
        finally:
            self._calls.release(block.conversation_id, block)

    def _unlock(self, block: Block, deadline: Deadline) -> None:
        """Take back the block's requests, and with them its lock."""
        try:
            self._backend.load(block.conversation_id, deadline, taken_back=block.mark)
        except Exception as error:
            logger.debug("%r: the lock is left to expire: %s", block.conversation_id, error)

    # Steps of both

    def _wait_for_others(self, call: Call) -> None:
        """Wait for the calls of this process on the same conversation."""
        conversation_id = call.conversation_id
        if self._calls.try_acquire(conversation_id, call):
            return
        holder = self._calls.holder(conversation_id)
        if holder is not None and holder.decides_in == get_ident():
            raise RuntimeError(
                f"the function of update() has called the store about conversation"
                f" {conversation_id!r}: it uses the methods of the working memory that it is given"
            )
        if not self._calls.acquire(conversation_id, call, call.waits_until.remaining()):
            holder = self._calls.holder(conversation_id)
            if isinstance(holder, Block):
                held_for = monotonic() - holder.began
                raise self._not_free(conversation_id, _this_process(), held_for)
            if not self._calls.acquire(conversation_id, call, call.deadline.remaining()):
                raise StoreUnavailableError(
                    f"the calls before this one on conversation {conversation_id!r} did not end"
                    f" within {self._limits.timeout:g} s"
                )
        self._check()  # the store may have been closed while this waited

    def _when_free(
        self, call: Call, request: Work[Written | Stored | Locked]
    ) -> Written | Stored:
        """Send a request until no other store holds the lock."""
        outcome = request()
        if not isinstance(outcome, Locked):
            return outcome
        pauses = backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while isinstance(outcome, Locked):
            if call.waits_until.expired:
                raise self._not_free(call.conversation_id, outcome.holder, outcome.held_for)
            sleep(min(next(pauses), outcome.expires_in, call.waits_until.remaining()))
            self._check()
            outcome = request()
        return outcome

    def _not_free(self, conversation_id: str, holder: str, held_for: float) -> LockTimeoutError:
        who, advice = holder, ""
        if holder == _this_process():
            who = "a block of this process"
            advice = "; in a locked() block use the methods of its working memory, not the store's"
        return LockTimeoutError(
            f"the lock of conversation {conversation_id!r} was not free within"
            f" {self._limits.longest_wait:g} s: {who} has held it for {held_for:.1f} s{advice}"
        )

    def _next_mark(self, call: Call) -> Mark:
        """Return the mark of a call's next request, which is doubtful until it has an outcome."""
        call.mark = Mark(self._store, next(self._numbers))
        _remember(self._doubtful, call.conversation_id, call, _REQUESTS_KEPT)
        return call.mark

    def _note_written(self, mark: Mark, conversation_id: str, change: Change) -> None:
        # A later number cancels those before it.
        self._doubtful.pop(conversation_id, None)
        self._note_state(conversation_id, Stored(str(mark), change.memory))

    def _note_state(self, conversation_id: str, stored: Stored) -> None:
        if stored.exists:
            _remember(self._known, conversation_id, stored, _STATES_KEPT)
        else:
            self._known.pop(conversation_id, None)

    def _load(
        self,
        conversation_id: str,
        deadline: Deadline,
        call: Call | None = None,
        *,
        parse: bool = True,
        renew: bool = False,
        viewer: str | None = None,
    ) -> Stored:
        doubtful = self._doubtful.get(conversation_id)
        if doubtful is not call and doubtful is self._calls.holder(conversation_id):
            doubtful = None  # it is under way
        stored = self._backend.load(
            conversation_id,
            deadline,
            taken_back=None if doubtful is None else doubtful.mark,
            renew=renew,
        )
        if doubtful is not None and self._doubtful.get(conversation_id) is doubtful:
            self._doubtful.pop(conversation_id, None)
        if viewer is not None and stored.exists and stored.owner != viewer:
            return Stored(user_id=stored.owner)
        return self._readable(conversation_id, stored, deadline) if parse else stored

    def _readable(self, conversation_id: str, stored: Stored, deadline: Deadline) -> Stored:
        """Return what is stored, parsed; one that cannot be read is moved out of the way."""
        reason = stored.problem
        if not reason:
            try:
                parsed = self._parsed(conversation_id, stored)
                self._note_state(conversation_id, parsed)
                return parsed
            except ValidationError as error:
                reason = "; ".join(f"{e['type']} at {e['loc']}" for e in error.errors()[:3])
        place = self._backend.set_aside(conversation_id, stored.mark, deadline)
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
