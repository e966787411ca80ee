"""Special arguments of an append, and the record of an erasure."""

from __future__ import annotations

from enum import Enum
from typing import Final

from jazzmine.records.base import Record
from jazzmine.records.types import Int64

__all__ = ["ANY", "NOTHING", "AnyMessage", "Erasure", "Nothing"]


class AnyMessage(Enum):
    """The type of `ANY`."""

    ANY = "any message"


ANY: Final = AnyMessage.ANY
"""As `expected_last`: append after whatever message is the newest, or to an empty conversation."""


class Nothing(Enum):
    """The type of `NOTHING`."""

    NOTHING = "nothing"


NOTHING: Final = Nothing.NOTHING
"""As `replace_after`: append, and delete nothing before."""


class Erasure(Record):
    """How many records were deleted with a user, those of others in the user's conversations too.

    Attributes:
        conversations: the number of conversations.
        messages: the number of messages.
        traces: the number of traces.
        erased_at: the time at the end, ms since the Unix epoch, UTC.
    """

    conversations: int
    messages: int
    traces: int
    erased_at: Int64
