"""The methods of a message store about all records of a user, and about old ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jazzmine._sync.message_store.deletion import delete_in_steps, prune_in_steps
from jazzmine._sync.message_store.records import StoredRecords
from jazzmine._sync.operation import operation
from jazzmine.records.arguments import require_count, require_id, require_metadata, require_time
from jazzmine.records.json_values import contains
from jazzmine.records.log import Erasure
from jazzmine.records.rows import Row

__all__ = ["ErasureMethods"]


class ErasureMethods(StoredRecords):
    """Deletes what users and time leave behind."""

    @operation()
    def erase_user(self, user_id: str) -> Erasure:
        """Delete all records of a user, in several transactions; repeat it until it finds none.

        Those are the user's conversations with everything in them, the user's messages in other
        conversations with their traces, and the traces that name the user. A call that failed
        has deleted a part; repeated, it deletes the rest.

        Args:
            user_id: whose records.

        Returns:
            How many records were deleted.
        """
        owner = require_id("user_id", user_id)
        return delete_in_steps(self.backend, owner, self.require_open)

    @operation()
    def move_user(self, from_user_id: str, to_user_id: str) -> int:
        """Make all records of one user another user's, in one step, as when a guest signs in.

        Those are conversations, messages and traces. Repeated, it moves what has come meanwhile.

        Args:
            from_user_id: whose records.
            to_user_id: whose they are afterwards.

        Returns:
            How many records were moved.
        """
        source, target = (
            require_id("from_user_id", from_user_id),
            require_id("to_user_id", to_user_id),
        )
        return 0 if source == target else self.backend.move_user(source, target)

    @operation("conversations")
    def prune_conversations(
        self,
        *,
        before: int,
        where: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        limit: int = 1000,
    ) -> int:
        """Delete old conversations with everything in them, oldest `last_updated_at` first.

        A long conversation is deleted in several transactions, its oldest messages first. If it is
        written to meanwhile, or the call fails, the rest of it stays; a later call deletes that.

        Args:
            before: ms since the Unix epoch, UTC; a conversation with a `last_updated_at`, or a
                message with a `timestamp`, of then or later stays.
            where: only those whose `metadata` has these keys with these values, as in
                `get_conversations`; one whose `metadata` is changed meanwhile stays.
            user_id: only this user's conversations.
            limit: how many at most.

        Returns:
            How many were deleted; after an error, those of the finished transactions stay deleted.
        """
        bound, wanted = require_time("before", before), require_count("limit", limit)
        condition = require_metadata("where", where)

        def matches(row: Row) -> bool:
            records = self._conversations.records([row])
            return bool(records) and contains(records[0].metadata, condition)

        def choose(rows: Sequence[Row]) -> Sequence[Row]:
            return [row for row in rows if matches(row)] if condition else rows

        user = None if user_id is None else require_id("user_id", user_id)
        return prune_in_steps(self.backend, bound, wanted, choose, self.require_open, user)
