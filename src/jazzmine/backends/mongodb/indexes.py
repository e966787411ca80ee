"""The collections and their indexes.

The index of a listing ends with `_id`, which orders documents with equal values: the server
reads a page in the order of the index, and sorts nothing. Creating an existing index has no
effect, so several processes may create the indexes at once.

https://www.mongodb.com/docs/manual/tutorial/sort-results-with-indexes/
https://www.mongodb.com/docs/manual/reference/command/createIndexes/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jazzmine.errors import ConfigurationError

__all__ = ["CONVERSATIONS", "INDEXES", "MESSAGES", "TRACES", "Index", "missing_indexes"]

CONVERSATIONS = "conversations"
MESSAGES = "messages"
TRACES = "turn_traces"

# Options without influence on the content of an index.
_WITHOUT_EFFECT = frozenset({"v", "key", "name", "ns", "background", "unique", "sparse"})
# Options that distinguish two indexes of the same fields, besides `unique` and `sparse`.
_DISTINGUISHING = frozenset({"partialFilterExpression", "collation"})


class Index(NamedTuple):
    """The fields of an index, each with its direction."""

    keys: tuple[tuple[str, int], ...]
    unique: bool = False
    sparse: bool = False

    @property
    def name(self) -> str:
        """The name that the driver gives to the index."""
        return "_".join(f"{field}_{direction}" for field, direction in self.keys)

    @property
    def options(self) -> dict[str, bool]:
        """The options that are set or must be compared, even if they are false."""
        return {name: True for name in ("unique", "sparse") if getattr(self, name)}

    def is_same(self, description: Mapping[str, Any]) -> bool:
        """Return whether the server's description of an index has the same definition."""
        return (
            self.keys == tuple(description["key"].items())
            and self.unique == bool(description.get("unique"))
            and self.sparse == bool(description.get("sparse"))
            and _WITHOUT_EFFECT.issuperset(description)
        )

    def is_refused_beside(self, description: Mapping[str, Any]) -> bool:
        """Return whether the server refuses the index beside an existing one."""
        is_another = (
            self.keys != tuple(description["key"].items())
            or self.unique != bool(description.get("unique"))
            or self.sparse != bool(description.get("sparse"))
            or not _DISTINGUISHING.isdisjoint(description)
        )
        return self.name == description["name"] or not is_another


def missing_indexes(
    collection: str, indexes: Sequence[Index], descriptions: Sequence[Mapping[str, Any]]
) -> list[Index]:
    """Return the indexes that a collection lacks.

    Args:
        collection: its name.
        indexes: the required indexes.
        descriptions: the server's descriptions of the existing indexes.

    Raises:
        ConfigurationError: an existing index prevents the creation of one of them.
    """
    missing = []
    for index in indexes:
        if any(index.is_same(description) for description in descriptions):
            continue
        for description in descriptions:
            if index.is_refused_beside(description):
                raise ConfigurationError(
                    f"the collection {collection!r} has an index {description['name']!r} of another"
                    " definition than jazzmine's; drop it, or choose another database (nothing was"
                    " changed)"
                )
        missing.append(index)
    return missing


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
