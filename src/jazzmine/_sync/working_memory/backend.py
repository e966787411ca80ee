"""What a back end of working memory has to provide."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, TypeAlias

from jazzmine._sync.store import Backend
from jazzmine.deadline import Deadline
from jazzmine.encryption.states import PLAIN, StateForm
from jazzmine.records.working_memory import WorkingMemory

__all__ = [
    "Again",
    "Lock",
    "Locked",
    "Mark",
    "Owned",
    "Save",
    "Stored",
    "WorkingMemoryBackend",
    "Written",
]


class Mark(NamedTuple):
    """What tells a request of a store from all others: no two of them have the same.

    The numbers of a store's requests for a conversation grow. A back end keeps, beside each
    conversation and for twice `timeout`, the last number that each store has written with. A
    request with that number or a lower one was done before, or was taken back: it changes nothing.

    Attributes:
        store: 24 hexadecimal digits, others in each store and in each process.
        number: 1 or more.
    """

    store: str
    number: int

    def __str__(self) -> str:
        return f"{self.store}.{self.number}"


class Stored(NamedTuple):
    """What is stored for a conversation.

    Attributes:
        mark: the mark of the save or the deletion that wrote it, as text; "" for nothing at all.
            A state that an earlier version wrote has a mark that no save has ("0.1.42").
        data: what was written (a back end that writes nothing keeps the working memory itself,
            which is never changed); None for nothing.
        user_id: whose it is, as it is kept beside that; "" if it is not known.
        problem: why it is nothing that was written; `data` is then None.
    """

    mark: str = ""
    data: bytes | WorkingMemory | None = None
    user_id: str = ""
    problem: str = ""

    @property
    def exists(self) -> bool:
        """Whether there is a state, readable or not."""
        return self.data is not None or bool(self.problem)

    @property
    def written(self) -> bytes | None:
        """What was written; None for nothing, and for a working memory itself."""
        return self.data if isinstance(self.data, bytes) else None

    @property
    def owner(self) -> str:
        """Whose it is; "" if it is not known."""
        return self.data.user_id if isinstance(self.data, WorkingMemory) else self.user_id


class Save(NamedTuple):
    """The request to write a state, or to delete one.

    Attributes:
        mark: the mark of what is written.
        read_mark: the mark of what must be stored now.
        memory: the new state; None to delete, which leaves a tombstone: the mark without a state,
            for twice `timeout`.
        form: how it is written.
    """

    conversation_id: str
    mark: Mark
    read_mark: str
    memory: WorkingMemory | None
    form: StateForm = PLAIN

    @property
    def data(self) -> bytes | None:
        """The new state as it is stored."""
        return None if self.memory is None else self.form.written(self.memory)

    @property
    def user_id(self) -> str:
        """Whose the new state is; "" for a deletion."""
        return "" if self.memory is None else self.memory.user_id


class Lock(NamedTuple):
    """The request to hold a conversation's lock, or to go on holding it.

    Attributes:
        mark: the token of the lock.
        holder: who holds it, for the errors of others.
        seconds: when it expires, from now on.
        renews: whether it was held before. A back end that keeps no numbers leaves a lock alone
            that is not there any more: the block has ended meanwhile.
    """

    conversation_id: str
    mark: Mark
    holder: str
    seconds: float
    renews: bool = False


class Written(NamedTuple):
    """The outcome of a save that was done, now or at an earlier attempt."""


class Locked(NamedTuple):
    """The outcome of a save or a lock while another store holds the conversation's lock.

    Attributes:
        holder: who holds it.
        held_for: since when, in s.
    """

    holder: str
    held_for: float


class Owned(NamedTuple):
    """What a user has.

    Attributes:
        conversations: those whose state is the user's.
        set_aside: those of which a state that was set aside is the user's.
    """

    conversations: list[str]
    set_aside: list[str]


# Makes, from what is stored, the next save of a call; None if it does not apply there.
Again: TypeAlias = "Callable[[Stored], Save | None]"


class WorkingMemoryBackend(Backend):
    """Where working memories are stored: conditional writes, reads, and locks that expire.

    Arguments are checked before. Each method is one round trip, and is safe to repeat: the back
    end repeats it until the deadline where a reply was lost. A state, a tombstone or a lock that
    has expired is nothing.
    """

    #: Whether its locks expire, and have to be renewed.
    locks_expire: ClassVar[bool] = True

    @abstractmethod
    def load(
        self,
        conversation_id: str,
        deadline: Deadline,
        *,
        taken_back: Mark | None = None,
        renew: bool = False,
    ) -> Stored:
        """Return what is stored; a plain read, unless it has more to do.

        Args:
            taken_back: of a request whose outcome is unknown: in the same step the last number of
                its store is raised to its number, so that it cannot be done afterwards, and a lock
                of its store with that number or a lower one is released.
            renew: whether the time to live starts anew in the same step.
        """

    @abstractmethod
    def write(
        self, save: Save, again: Again, deadline: Deadline
    ) -> Written | Locked | Stored:
        """Write, if what is stored has the mark that was read.

        The first of these that is true is what happens, in one step:

        - The last number of the save's store is the save's number, or a higher one: nothing is
          written, and the outcome is `Written`.
        - Another store holds the lock: nothing is written, and the outcome is `Locked`. A lock of
          the save's own store is no obstacle: the calls of a store wait for each other before.
        - What is stored has another mark than `read_mark`: nothing is written, and it is the
          outcome. A back end whose transaction includes this call may save `again(stored)`
          instead, unless that is None.
        - It is written with its mark, and its time to live starts anew; the save's number becomes
          the last one of its store, whose lock is released.
        """

    @abstractmethod
    def lock(self, lock: Lock, deadline: Deadline) -> Stored | Locked:
        """Take the lock, or renew it, and return what is stored; or return who else holds it.

        The first of these that is true is what happens, in one step:

        - Another store holds the lock: nothing is done.
        - There is no state, or the last number of the lock's store is the lock's number or a
          higher one: no lock is taken, and what is stored is returned.
        - The lock is held with this mark from now on, whatever lock its own store held.
        """

    @abstractmethod
    def set_aside(self, conversation_id: str, mark: str, deadline: Deadline) -> str:
        """Move away a state that cannot be read, for 7 days, if it has this mark still.

        Nothing is stored there afterwards. Returns where it is, for the log.
        """

    @abstractmethod
    def conversations(self, deadline: Deadline) -> list[str]:
        """Return the conversations that have a state."""

    @abstractmethod
    def replace(
        self, conversation_id: str, stored: Stored, data: bytes, number: int, deadline: Deadline
    ) -> bool:
        """Store the very state that was read in another form, which says the same.

        Its mark, its time to live and its lock stay as they are.

        Args:
            stored: what was read; it has data.
            data: its other form.
            number: that of the format.

        Returns:
            Whether it was stored; False if something else is there by now.
        """

    @abstractmethod
    def count(self, deadline: Deadline) -> int:
        """Return how many conversations have a state."""

    @abstractmethod
    def owned_by(self, user_id: str, deadline: Deadline) -> Owned:
        """Return what a user has; one that is set aside meanwhile is found at either place."""

    @abstractmethod
    def erase_leftovers(
        self, user_id: str, conversation_ids: Sequence[str], deadline: Deadline
    ) -> None:
        """Delete what is left of a user after the states were deleted.

        That is: the user's states of these conversations that were set aside, those that have
        expired, and what a file still holds of all that.
        """
