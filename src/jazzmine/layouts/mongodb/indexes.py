"""The collections, and the indexes of each.

An index that a listing walks ends with `_id`, which orders equals: the page is read off the
index, and nothing is sorted. Creating an index that is there already does nothing, so any
number of processes may do it at once.

https://www.mongodb.com/docs/manual/tutorial/sort-results-with-indexes/
https://www.mongodb.com/docs/manual/reference/command/createIndexes/
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CONVERSATIONS", "INDEXES", "MESSAGES", "TRACES", "Index"]

CONVERSATIONS = "conversations"
MESSAGES = "messages"
TRACES = "turn_traces"


class Index(NamedTuple):
    """The fields of an index, each with its direction."""

    keys: tuple[tuple[str, int], ...]
    unique: bool = False
    sparse: bool = False

    @property
    def options(self) -> dict[str, bool]:
        """What is special about it; an option that is named is compared, even if it is false."""
        return {name: True for name in ("unique", "sparse") if getattr(self, name)}


INDEXES: dict[str, tuple[Index, ...]] = {
    CONVERSATIONS: (
        Index((("id", 1),), unique=True),
        Index((("user_id", 1), ("last_updated_at", -1), ("_id", -1))),
        Index((("agent_id", 1), ("last_updated_at", -1), ("_id", -1))),
    ),
    MESSAGES: (
        Index((("id", 1),), unique=True),
        Index((("conversation_id", 1), ("timestamp", 1), ("_id", 1))),
        Index((("user_id", 1), ("timestamp", 1), ("_id", 1))),
        Index((("is_flagged", 1),), sparse=True),
    ),
    TRACES: (
        Index((("id", 1),), unique=True),
        Index((("message_id", 1),), unique=True),
        Index((("conversation_id", 1), ("turn_number", 1), ("_id", 1))),
        Index((("agent_id", 1), ("started_at_ms", -1), ("_id", -1))),
        Index((("user_id", 1), ("started_at_ms", -1), ("_id", -1))),
        Index((("total_tokens", 1),)),
        Index((("total_latency_ms", 1),)),
        Index((("detected_intent", 1),)),
    ),
}
