"""What is stored of a conversation's working memory, and the requests to change it."""

from __future__ import annotations

import os
from typing import NamedTuple, TypeAlias

from jazzmine.records.unknown_fields import FORMAT
from jazzmine.records.working_memory import WorkingMemory

# The length of a mark. The marks of the last 16 saves are kept beside a state.
_LENGTH = 16


# A state as `StateForm` writes it; a back end of this process may keep the working memory itself,
# which is never changed. None is nothing, or what is unreadable.
Data: TypeAlias = bytes | WorkingMemory | None


def new_mark() -> str:
    """Return the mark of a save, or the token of a lock: no two are the same."""
    return os.urandom(_LENGTH // 2).hex()


class Stored(NamedTuple):
    """What is stored for a conversation.

    Attributes:
        mark: the mark of the last save; "" if nothing is stored.
        data: the state.
        user_id: the user, as stored beside the state; "" if unknown.
    """

    mark: str = ""
    data: Data = None
    user_id: str = ""


class Save(NamedTuple):
    """The request to write a state, or to delete one.

    Attributes:
        mark: the mark of this save.
        read_mark: the mark of what must be stored now; "" for nothing.
        data: the new state as it is stored; None to delete.
        state: the new state as the call has made it.
        user_id: its user.
        format: the number of the format of the data.
        token: the lock that this save holds and releases; "" without one.
    """

    conversation_id: str
    mark: str
    read_mark: str
    data: Data
    state: Data
    user_id: str = ""
    format: int = FORMAT
    token: str = ""


class Lock(NamedTuple):
    """The request to hold a conversation's lock, to go on holding it, or to release it.

    Attributes:
        token: tells this lock from all others.
        holder: who holds it, for the errors of others.
        seconds: when it expires, from now on; 0 to release it.
        renews: whether it was taken before. A lock that is not held any more is not taken again.
    """

    conversation_id: str
    token: str
    holder: str
    seconds: float
    renews: bool = False


class Locked(NamedTuple):
    """The outcome of a request while another call holds the conversation's lock.

    Attributes:
        holder: who holds it.
        held_for: since when, in s.
    """

    holder: str
    held_for: float


def outcome_of(
    marks: str, data: bytes | None, user_id: str, holder: str | None, held_for: float
) -> Stored | Locked:
    """Return the outcome of a request that has found something else stored, or the lock held.

    Args:
        marks: the marks of the last saves, the newest first; "" if nothing is stored.
        data, user_id: what is stored.
        holder, held_for: who else holds the lock; None for nobody.
    """
    if holder is not None:
        return Locked(holder, held_for)
    return Stored(marks[:_LENGTH], data, user_id)
