"""A conversation as a log: what several workers that serve one conversation need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import time_ns
from uuid import uuid4

from jazzmine._async.message_store.hooks import MessageStoreHooks
from jazzmine._async.message_store.pace import Pace
from jazzmine._async.message_store.pages import filled
from jazzmine.errors import NotFoundError
from jazzmine.records.arguments import require_count, require_id, require_time
from jazzmine.records.base import Snapshot, snapshot, snapshot_all
from jazzmine.records.context_window import TYPICAL_TOKENS, ContextWindow, estimated_tokens
from jazzmine.records.conversation_log import Erased
from jazzmine.records.log import ANY, AnyMessage, Erasure
from jazzmine.records.messages import Conversation, Message

__all__ = ["ConversationLog"]

# How many conversations are chosen at a time to be pruned.
_OLD_AT_ONCE = 50


class ConversationLog(MessageStoreHooks):
    """The methods of a message store that treat a conversation as a log."""

    def __init__(self) -> None:
        super().__init__()
        self._average_tokens = TYPICAL_TOKENS

    async def get_or_create_conversation(self, conversation: Conversation) -> Conversation:
        """Return the stored conversation with the same id; store this one if there is none."""
        self._check()
        return await self._create_conversation(snapshot(conversation, Conversation))

    async def append_messages(
        self,
        conversation_id: str,
        messages: Iterable[Message],
        *,
        expected_last: str | AnyMessage | None = ANY,
    ) -> list[Message]:
        """Store new messages after all others of a conversation, all of them or none.

        Appends to one conversation take effect one after another. A `timestamp` earlier than that
        of the newest message is raised to it, and the conversation's `last_updated_at` is raised
        to the last one. If all of the messages are stored already, with the same content
        (`timestamp` and `is_flagged` aside), nothing is changed: the call may be repeated.

        Args:
            conversation_id: the conversation of all messages.
            messages: in order; none is allowed, and nothing is done.
            expected_last: the id of the newest message that the caller has read, flagged ones
                included, or None for a conversation without messages; by default any.

        Returns:
            The messages as they are stored.

        Raises:
            ConflictError: another message than `expected_last` is the newest; it is `newest_id`.
            IntegrityError: the conversation is not stored, an id is stored already with another
                content, or only some of the ids are stored.
            ValueError: a message is of another conversation, or two messages have one id.
        """
        self._check()
        owner = require_id("conversation_id", conversation_id)
        if expected_last is not None and expected_last is not ANY:
            expected_last = require_id("expected_last", expected_last)
        snapshots = snapshot_all(messages, Message)
        _require_one_conversation(owner, snapshots)
        return await self._append(owner, snapshots, expected_last) if snapshots else []

    async def pop_message(self, conversation_id: str) -> Message | None:
        """Delete the newest message of a conversation, and its trace; no two calls return one.

        Returns:
            The message, or None if there is none.
        """
        self._check()
        return await self._pop(require_id("conversation_id", conversation_id))

    async def rewind_conversation(self, conversation_id: str, *, after: str | None) -> int:
        """Delete all messages after one of them, and their traces, in one step.

        Args:
            conversation_id: a conversation; `last_updated_at` is not changed.
            after: the id of the last message that stays; None deletes all.

        Returns:
            How many messages were deleted.

        Raises:
            NotFoundError: `after` is no message of this conversation.
        """
        self._check()
        owner = require_id("conversation_id", conversation_id)
        return await self._rewind(owner, None if after is None else require_id("after", after))

    async def fork_conversation(
        self, conversation_id: str, new_conversation: Conversation, *, until: str | None = None
    ) -> dict[str, str]:
        """Copy a conversation's messages and their traces to a new conversation, in one step.

        Timestamps, flags and order stay the same; the copies have new ids.

        Args:
            conversation_id: the conversation to copy.
            new_conversation: the conversation to store.
            until: the id of the last message that is copied; None copies all.

        Returns:
            The ids of the new messages by those of the copied ones, oldest first.

        Raises:
            NotFoundError: the conversation is not stored, or `until` is no message of it.
            ConflictError: a conversation with the new one's id is stored.
        """
        self._check()
        owner = require_id("conversation_id", conversation_id)
        last = None if until is None else require_id("until", until)
        return await self._fork(owner, last, snapshot(new_conversation, Conversation), uuid4())

    async def get_context_window(
        self,
        conversation_id: str,
        *,
        max_tokens: int,
        count_tokens: Callable[[Message], int] | None = None,
    ) -> list[Message]:
        """Return the newest messages that are not flagged and fit into a model's window.

        They end where the next older message would not fit. A tool's answer is returned only
        with its call: the nearest message of an assistant or a colleague before it.

        Args:
            conversation_id: a conversation; one that is not stored has no messages.
            max_tokens: what the messages may cost together.
            count_tokens: returns the cost of a message; by default a quarter of the UTF-8 bytes
                of its `enhanced_message`, or of its `original_content` if that is empty.

        Returns:
            The messages, oldest first.
        """
        self._check()
        owner = require_id("conversation_id", conversation_id)
        budget = require_count("max_tokens", max_tokens)
        if count_tokens is not None and not callable(count_tokens):
            raise TypeError(f"count_tokens must be callable, not {type(count_tokens).__name__}")
        if not budget:
            return []
        while True:
            window = ContextWindow(budget, count_tokens or estimated_tokens, self._average_tokens)
            if await self._read_window(owner, window):
                messages = window.messages()
                self._average_tokens = window.average
                return messages

    async def _read_window(self, conversation_id: str, window: ContextWindow) -> bool:
        """Read until a window is full; return False if it has to be read anew."""
        after: str | None = None
        while not window.is_full:
            size = window.page_size
            try:
                page = await filled(self._list_newest, (conversation_id, True), size, after)
            except NotFoundError:
                # The last message of the page before was deleted meanwhile.
                return False
            window.add(page)
            if len(page) < size:
                return True
            after = page[-1].id
        return True

    async def erase_user(self, user_id: str) -> Erasure:
        """Delete all records of a user, in several transactions; repeat it until it finds none.

        Those are the user's conversations with everything in them, the user's messages in other
        conversations with their traces, and the traces that name the user. A call that failed
        has deleted a part; repeated, it deletes the rest.

        Args:
            user_id: whose records.

        Returns:
            How many records were deleted.
        """
        self._check()
        owner = require_id("user_id", user_id)
        total, pace = Erased(), Pace(self._smallest_step)
        while any(erased := await self._erase(owner, pace.size)):
            total = total.plus(erased)
            await pace.end_step()
            self._check()
        return Erasure(**total._asdict(), erased_at=time_ns() // 1_000_000)

    async def prune_conversations(self, *, before: int, limit: int = 1000) -> int:
        """Delete old conversations with everything in them, oldest `last_updated_at` first.

        A long conversation is deleted in several transactions, its oldest messages first. If it is
        written to meanwhile, or the call fails, the rest of it stays; a later call deletes that.

        Args:
            before: ms since the Unix epoch, UTC; a conversation with a `last_updated_at`, or a
                message with a `timestamp`, of then or later stays.
            limit: how many at most.

        Returns:
            How many were deleted; after an error, those of the finished transactions stay deleted.
        """
        self._check()
        bound, wanted = require_time("before", before), require_count("limit", limit)
        pruned, pace = 0, Pace(self._smallest_step)
        async for ids in self._iter_old(bound, _OLD_AT_ONCE):
            while ids and pruned < wanted:
                deleted, done = await self._prune(ids[: wanted - pruned], bound, pace.size)
                pruned, ids = pruned + deleted, ids[done:]
                await pace.end_step()
                self._check()
            if pruned == wanted:
                break
        return pruned


def _require_one_conversation(conversation_id: str, messages: Sequence[Snapshot[Message]]) -> None:
    ids: set[str] = set()
    for message in messages:
        record = message.record
        if record.conversation_id != conversation_id:
            raise ValueError(
                f"message {record.id!r} is of conversation {record.conversation_id!r},"
                f" not of {conversation_id!r}"
            )
        if record.id in ids:
            raise ValueError(f"two of the messages have the id {record.id!r}")
        ids.add(record.id)
