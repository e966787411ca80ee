"""The working-memory store: what every back end promises, and how it locks, loads and saves."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from jazzmine._compat.blocking import Home
from jazzmine.config import (
    BackendConfig,
    MemoryStoreConfig,
    RedisConfig,
    working_memory_config,
)
from jazzmine.errors import NotFoundError, StaleWorkingMemoryError, StoreClosedError
from jazzmine.records.arguments import require_id
from jazzmine.records.flow import ActiveFlowState, PendingConfirmation, Slot
from jazzmine.records.memory_base import checked_copy
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache
from jazzmine.records.working_memory import WorkingMemory

__all__ = ["Lease", "WorkingMemoryStore"]

AnyStore = TypeVar("AnyStore", bound="WorkingMemoryStore")


class Lease(NamedTuple):
    """The lock of a conversation, and the working memory as it was when the lock was taken.

    The working memory is the store's own, for one of its transitions to change.
    """

    cid: str
    token: str
    memory: WorkingMemory | None


class WorkingMemoryStore(ABC):
    """What each conversation is in the middle of.

    One conversation's updates run one after another, different conversations never wait for
    each other. Each update is a method of `WorkingMemory` of the same name: it locks, loads,
    calls that method, saves, and returns the new state, which belongs to the caller.

    Every method raises `TypeError` for an id or a record of another type, `ValidationError`
    for a value that the back ends cannot hold, `StoreClosedError` after `close()`, and
    `StoreUnavailableError` when the server cannot be reached. Those that update raise
    `NotFoundError` if the conversation has no working memory, `LockTimeoutError` if its lock
    was not free within `lock_timeout`, and `LockLostError` if the lock expired meanwhile.
    """

    def __init__(self) -> None:
        self._home = Home(self._moved_in)
        self._closed = False

    @classmethod
    def initialize(
        cls, config: Mapping[str, object] | str | None = None
    ) -> WorkingMemoryStore:
        """Open a store.

        Args:
            config: a mapping with `storage` ("memory" by default) and the options of that back
                end, or a URL; None takes the URL in the environment variable
                JAZZMINE_WORKING_MEMORY, or else keeps everything in this process.

        Raises:
            ConfigurationError: the configuration has an unknown key or a wrong value.
            ImportError: the back end's driver is not installed.
            StoreUnavailableError: the server cannot be reached.
        """
        store = _backend(working_memory_config(config))
        store._check()
        store._open()
        return store

    def close(self) -> None:
        """Release all connections; closing again does nothing."""
        self._home.check()
        if not self._closed:
            self._closed = True
            self._close()

    def __enter__(self: AnyStore) -> AnyStore:
        self._check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # What a back end provides.

    @abstractmethod
    def _open(self) -> None:
        """Get ready; on failure leave nothing behind."""

    @abstractmethod
    def _close(self) -> None:
        """Release everything; called once."""

    def _moved_in(self) -> None:  # noqa: B027 - nothing to do is a good answer
        """Take new connections and locks, in a process forked from the store's own."""

    @abstractmethod
    def _load(self, conversation_id: str, *, renew: bool = False) -> WorkingMemory | None:
        """Read without the lock; `renew` renews the time to live in the same step."""

    @abstractmethod
    def _acquire(self, cid: str) -> Lease:
        """Take the lock and load; holds nothing if it raises."""

    @abstractmethod
    def _save_and_release(self, lease: Lease, memory: WorkingMemory) -> None:
        """Save under the lock and let it go; still holds it if it raises."""

    def _given_away(self, memory: WorkingMemory) -> WorkingMemory:
        """Return what a caller may have of a memory that was leased or saved."""
        return memory

    @abstractmethod
    def _release(self, lease: Lease) -> None:
        """Let the lock go, if it is still held."""

    def _abandon(self, lease: Lease, error: BaseException) -> None:
        """Let the lock go, if it is still held, after an error; raises nothing of its own.

        Args:
            error: what was raised under the lock. Who is cancelled does not wait for a server.
        """
        self._release(lease)

    def _prolonged(self, lease: Lease) -> AbstractContextManager[None]:
        """Keep the lock from expiring in a block of any length."""
        return nullcontext()

    @abstractmethod
    def _delete(self, lease: Lease) -> bool:
        """Delete under the lock and let it go; True if there was a working memory."""

    @abstractmethod
    def _count(self) -> int: ...

    # Whole working memories

    def get(self, cid: str) -> WorkingMemory | None:
        """Return a conversation's working memory, or None; waits for no lock."""
        self._check()
        return self._load(require_id("cid", cid))

    def get_or_create(self, cid: str, user_id: str, agent_id: str) -> WorkingMemory:
        """Return a conversation's working memory, a new one if it has none."""
        self._check()
        new = WorkingMemory(
            require_id("cid", cid),
            require_id("user_id", user_id),
            require_id("agent_id", agent_id),
        )
        known = self._load(cid, renew=True)
        if known is not None:
            return known
        with self._leased(cid) as lease:
            if lease.memory is not None:
                self._release(lease)
                return self._given_away(lease.memory)
            new.revision = 1
            self._save_and_release(lease, new)
        return self._given_away(new)

    def save(self, wm: WorkingMemory) -> WorkingMemory:
        """Save a working memory as it is, unless somebody else saved it since it was read.

        The one that is passed counts as read anew afterwards: its `revision` is the new one.

        Raises:
            StaleWorkingMemoryError: the stored revision is not the one that was read.
        """
        self._check()
        saved = checked_copy(wm, WorkingMemory, "wm")
        with self._leased(saved.conversation_id) as lease:
            if lease.memory is not None and lease.memory.revision != saved.revision:
                raise StaleWorkingMemoryError(
                    f"the working memory of conversation {saved.conversation_id!r} was read at"
                    f" revision {saved.revision} and is now at {lease.memory.revision}: get() it"
                    " again, or change it in a locked() block"
                )
            saved.last_updated = time.time()
            self._save(lease, saved)
        wm.revision, wm.last_updated = saved.revision, saved.last_updated
        return self._given_away(saved)

    def delete(self, cid: str) -> bool:
        """Delete a conversation's working memory; True if it had one."""
        self._check()
        with self._leased(require_id("cid", cid)) as lease:
            return self._delete(lease)

    def active_count(self) -> int:
        """Return how many conversations have a working memory."""
        self._check()
        return self._count()

    @contextmanager
    def locked(self, cid: str) -> Iterator[WorkingMemory]:
        """Hold a conversation's lock for a block, and save once at its end.

        The block gets the working memory and calls its methods (`wm.collect_slot(...)`); the
        store's own methods for this conversation would wait for the block. Nothing is saved
        if the block raises.
        """
        self._check()
        with self._leased(require_id("cid", cid)) as lease:
            memory = self._given_away(_found(lease))
            revision = memory.revision
            with self._prolonged(lease):
                yield memory
            # The block may have changed anything in place, so what it made is checked.
            changed = checked_copy(memory, WorkingMemory, "wm")
            if changed.conversation_id != lease.cid:
                raise ValueError(f"conversation {lease.cid!r} was given another conversation_id")
            changed.revision = revision
            self._save(lease, changed)
        memory.revision = changed.revision

    # Transitions

    def begin_turn(self, cid: str, turn_cache: TurnCache) -> WorkingMemory:
        """Enter a turn; see `WorkingMemory.begin_turn`."""
        return self._update(cid, lambda wm: wm.begin_turn(turn_cache))

    def end_turn(
        self, cid: str, agent_response: str, agent_intent: str, topic_summary: str = ""
    ) -> WorkingMemory:
        """Remember the reply; see `WorkingMemory.end_turn`."""
        return self._update(
            cid, lambda wm: wm.end_turn(agent_response, agent_intent, topic_summary)
        )

    def start_flow(self, cid: str, flow_state: ActiveFlowState) -> WorkingMemory:
        """Make a flow the active one; see `WorkingMemory.start_flow`."""
        return self._update(cid, lambda wm: wm.start_flow(flow_state))

    def advance_sequential_step(self, cid: str, result: dict[str, Any]) -> WorkingMemory:
        """Finish a step of the flow; see `WorkingMemory.advance_sequential_step`."""
        return self._update(cid, lambda wm: wm.advance_sequential_step(result))

    def record_branch_result(self, cid: str, branch_id: str, result: Any) -> WorkingMemory:
        """Finish a branch of the flow; see `WorkingMemory.record_branch_result`."""
        return self._update(cid, lambda wm: wm.record_branch_result(branch_id, result))

    def set_condition_branch(self, cid: str, branch: str) -> WorkingMemory:
        """Keep where the flow's condition led; see `WorkingMemory.set_condition_branch`."""
        return self._update(cid, lambda wm: wm.set_condition_branch(branch))

    def record_tool_call(self, cid: str, record: ToolCallRecord) -> WorkingMemory:
        """Keep a tool call; see `WorkingMemory.record_tool_call`."""
        return self._update(cid, lambda wm: wm.record_tool_call(record))

    def register_slots(self, cid: str, slots: Iterable[Slot]) -> WorkingMemory:
        """Say what the flow is to ask for; see `WorkingMemory.register_slots`."""
        return self._update(cid, lambda wm: wm.register_slots(slots))

    def collect_slot(
        self, cid: str, name: str, value: Any, validation_error: str = ""
    ) -> WorkingMemory:
        """Keep the answer for a slot; see `WorkingMemory.collect_slot`."""
        return self._update(cid, lambda wm: wm.collect_slot(name, value, validation_error))

    def request_confirmation(
        self, cid: str, confirmation: PendingConfirmation
    ) -> WorkingMemory:
        """Wait for the user's yes; see `WorkingMemory.request_confirmation`."""
        return self._update(cid, lambda wm: wm.request_confirmation(confirmation))

    def confirm_action(self, cid: str) -> WorkingMemory:
        """Take the user's yes; see `WorkingMemory.confirm_action`."""
        return self._update(cid, lambda wm: wm.confirm_action())

    def complete_flow(self, cid: str) -> WorkingMemory:
        """Archive the flow as completed; see `WorkingMemory.complete_flow`."""
        return self._update(cid, lambda wm: wm.complete_flow())

    def cancel_flow(self, cid: str) -> WorkingMemory:
        """Archive the flow as cancelled; see `WorkingMemory.cancel_flow`."""
        return self._update(cid, lambda wm: wm.cancel_flow())

    def fail_flow(self, cid: str) -> WorkingMemory:
        """Archive the flow as failed; see `WorkingMemory.fail_flow`."""
        return self._update(cid, lambda wm: wm.fail_flow())

    # How an update goes

    def _check(self) -> None:
        if self._closed:
            raise StoreClosedError("this store is closed; open another with initialize()")
        self._home.check()

    def _update(self, cid: str, transition: Callable[[WorkingMemory], bool]) -> WorkingMemory:
        self._check()
        with self._leased(require_id("cid", cid)) as lease:
            memory = _found(lease)
            if transition(memory):
                self._save(lease, memory)
            else:
                self._release(lease)
            return self._given_away(memory)

    def _save(self, lease: Lease, memory: WorkingMemory) -> None:
        memory.revision += 1
        self._save_and_release(lease, memory)

    @contextmanager
    def _leased(self, cid: str) -> Iterator[Lease]:
        lease = self._acquire(cid)
        try:
            # The store may have been closed while this waited for the lock.
            self._check()
            yield lease
        except BaseException as error:
            self._abandon(lease, error)
            raise


def _found(lease: Lease) -> WorkingMemory:
    if lease.memory is None:
        raise NotFoundError(
            f"conversation {lease.cid!r} has no working memory; get_or_create() makes one"
        )
    return lease.memory


def _backend(config: BackendConfig) -> WorkingMemoryStore:
    if isinstance(config, MemoryStoreConfig):
        from jazzmine._sync.working_memory.memory import InMemoryWorkingMemoryStore

        return InMemoryWorkingMemoryStore(config.lock_timeout)
    if isinstance(config, RedisConfig):
        from jazzmine._sync.working_memory.redis import RedisWorkingMemoryStore

        return RedisWorkingMemoryStore._configured(config)
    raise AssertionError(f"no working-memory store takes a {type(config).__name__}")
