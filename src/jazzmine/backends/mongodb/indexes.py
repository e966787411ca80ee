"""The collections and their indexes.

The index of a listing ends with `_id`, which orders documents with equal values: the server
reads a page in the order of the index, and sorts nothing. Creating an existing index has no
effect, so several processes may create the indexes at once.

https://www.mongodb.com/docs/manual/tutorial/sort-results-with-indexes/
https://www.mongodb.com/docs/manual/reference/command/createIndexes/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pymongo import IndexModel

#: The number of the format of the documents. A version that changes or adds a field raises it:
#: older versions then refuse to open the database.
FORMAT = 1

CONVERSATIONS = "conversations"
MESSAGES = "messages"
TRACES = "turn_traces"

# Options without influence on the content of an index.
_WITHOUT_EFFECT = frozenset({"v", "key", "name", "ns", "background", "unique", "sparse"})


class Index(NamedTuple):
    """The fields of an index, each with its direction."""

    keys: tuple[tuple[str, int], ...]
    unique: bool = False
    sparse: bool = False

    @property
    def model(self) -> IndexModel:
        """The index in the form of the driver, which gives it a name."""
        options = {name: True for name in ("unique", "sparse") if getattr(self, name)}
        return IndexModel(list(self.keys), **options)

    def is_same(self, description: Mapping[str, Any]) -> bool:
        """Return whether the server's description of an index has the same definition."""
        return (
            self.keys == tuple(description["key"].items())
            and self.unique == bool(description.get("unique"))
            and self.sparse == bool(description.get("sparse"))
            and _WITHOUT_EFFECT.issuperset(description)
        )


INDEXES: dict[str, tuple[Index, ...]] = {
    CONVERSATIONS: (
        Index((("id", 1),), unique=True),
        Index((("user_id", 1), ("last_updated_at", -1), ("_id", -1))),
        Index((("agent_id", 1), ("last_updated_at", -1), ("_id", -1))),
        Index((("last_updated_at", 1), ("_id", 1))),
        Index((("metadata.$**", 1),)),
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
        Index((("started_at_ms", -1), ("_id", -1))),
        Index((("total_tokens", 1),)),
        Index((("total_latency_ms", 1),)),
        Index((("detected_intent", 1),)),
    ),
}
