"""The methods of a message store about messages."""

from __future__ import annotations

from collections.abc import Iterator, Callable, Iterable
from itertools import takewhile
from typing import Any

from jazzmine._sync.message_store.conversations import ConversationMethods
from jazzmine._sync.operation import operation
from jazzmine.deadline import begin_call
from jazzmine.errors import NotFoundError
from jazzmine.records.arguments import (
    optional_id,
    require_choice,
    require_count,
    require_id,
    require_ids,
    require_metadata,
)
from jazzmine.records.base import snapshot, snapshot_all
from jazzmine.records.context_window import (
    LEAST_TOKENS,
    ContextWindow,
    estimated_tokens,
    split_at_answer,
)
from jazzmine.records.conversation_log import distinct, merged
from jazzmine.records.hook_arguments import MessagePage, NewestPage, Turn
from jazzmine.records.messages import Message, MessageOrder, require_editable
from jazzmine.records.rows import id_in
from jazzmine.records.types import MAX_INT
from jazzmine.tracing import call_span, count_records

# How many messages are read at once to see which have the time of another one.
_SAME_TIME = 20


class MessageMethods(ConversationMethods):
    """Stores, lists, changes, flags and deletes messages."""

    @operation()
    def store_message(self, message: Message) -> None:
        """Store a message, in place of the one with the same id if there is one.

        Raises:
            IntegrityError: its conversation is not stored, or a message with its id is stored in
                another one.
        """
        self._put(Turn(messages=[snapshot(message, Message)]))

    @operation()
    def update_message(self, message: Message) -> None:
        """Do the same as `store_message`."""
        self._put(Turn(messages=[snapshot(message, Message)]))

    @operation()
    def edit_message(self, message_id: str, **fields: Any) -> Message:
        """Change some fields of a stored message, and nothing else, in one step.

        For the text of an answer that is streamed, what an analysis has found, a label, a review:
        a message that was deleted meanwhile stays deleted, and a flag that was set stays set.

        Args:
            message_id: which message.
            **fields: the new values by the names of the fields. `metadata` is merged by key: None
                as a value removes a key. Not `id`, `conversation_id`, `user_id`, `role`,
                `timestamp` and `is_flagged`.

        Returns:
            The message as it is stored now.

        Raises:
            NotFoundError: the message is not stored.
            TypeError: a field cannot be edited, or is none.
            ValidationError: a value is none of the field's.
        """
        wanted = require_id("message_id", message_id)
        changes = require_editable(fields)
        values = require_metadata("metadata", changes.pop("metadata", None))

        def edited(stored: Message) -> Message:
            metadata = merged(stored.metadata, values)
            return stored.model_copy(update={**changes, "metadata": metadata})

        return self._edit("messages", self._messages, wanted, edited)

    @operation()
    def store_messages(self, messages: Iterable[Message]) -> None:
        """Store all of the messages or none; of two with one id, the later one.

        Raises:
            IntegrityError: as in `store_message`, for one of them.
        """
        snapshots = distinct(snapshot_all(messages, Message))
        if snapshots:
            self._put(Turn(messages=snapshots))

    @operation("messages")
    def get_message_by_id(self, message_id: str) -> Message | None:
        """Return the message, or None."""
        row = self.backend.get_message(require_id("message_id", message_id))
        return None if row is None else self._messages.record(row)

    @operation("messages")
    def get_messages_by_ids(self, message_ids: Iterable[str]) -> list[Message]:
        """Return those of the messages that are stored, in the order asked for."""
        wanted = require_ids("message_ids", message_ids)
        if not wanted:
            return []
        return self._decoded(self._messages, self.backend.get_messages(wanted))

    @operation("messages")
    def get_messages_by_conversation_id(
        self,
        conversation_id: str,
        *,
        order: MessageOrder = "oldest",
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Message]:
        """Return a page of a conversation's messages, flagged ones included.

        Args:
            conversation_id: a conversation; one that is not stored has no messages.
            order: "oldest" for the oldest first, "newest" for the newest first, as for a page
                that opens at the end of the conversation.
            limit: how many at most; None is no limit.
            after: the id of the last message of the page before.

        Raises:
            NotFoundError: `after` is no message of this conversation.
        """
        owner = require_id("conversation_id", conversation_id)
        if require_choice("order", order, MessageOrder) == "newest":
            newest = NewestPage(owner, "all", MAX_INT if limit is None else limit, after)
            return self._page(self._messages, self.backend.list_newest, newest)
        page = MessagePage("conversation_id", owner, limit, after)
        return self._page(self._messages, self.backend.list_messages, page)

    @operation()
    def count_messages(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        """Return how many messages each of some conversations has, flagged ones included.

        Args:
            conversation_ids: which conversations.

        Returns:
            The numbers by the ids, in the order asked for; 0 for one that is not stored.
        """
        wanted = require_ids("conversation_ids", conversation_ids)
        if not wanted:
            return {}
        counts = self.backend.count_messages(wanted)
        return {conversation_id: counts.get(conversation_id, 0) for conversation_id in wanted}

    @operation("messages")
    def get_messages_by_user_id(
        self, user_id: str, *, limit: int | None = None, after: str | None = None
    ) -> list[Message]:
        """Return a user's messages, oldest first.

        Raises:
            NotFoundError: `after` is no message of this user.
        """
        page = MessagePage("user_id", require_id("user_id", user_id), limit, after)
        return self._page(self._messages, self.backend.list_messages, page)

    def iter_messages(
        self, conversation_id: str, *, batch_size: int = 500
    ) -> Iterator[Message]:
        """Iterate over a conversation's messages, oldest first, in constant memory.

        Args:
            conversation_id: a conversation; one that is not stored has no messages.
            batch_size: how many messages are read at once.
        """
        self.require_open()
        owner = require_id("conversation_id", conversation_id)
        return self._one_by_one(owner, require_count("batch_size", batch_size, least=1))

    def _one_by_one(self, conversation_id: str, size: int) -> Iterator[Message]:
        cursor: Any = None
        while True:
            self.require_open()
            begin_call()  # also where an interrupted call has left when it began
            with call_span(self, "iter_messages", {"conversation_id": conversation_id}) as span:
                batch = self.backend.next_messages(conversation_id, cursor, size)
                messages = self._decoded(self._messages, batch.rows, conversation_id)
                if span is not None:
                    count_records(span, "messages", messages)
            for message in messages:
                yield message
                self.require_open()
            if len(batch.rows) < size:
                return
            cursor = batch.cursor

    @operation("messages")
    def get_immediate_context(self, conversation_id: str, n: int) -> list[Message]:
        """Return the `n` newest messages that are not flagged, oldest first.

        A tool's answer and its call are there together or not at all, as in `get_context_window`.
        """
        owner = require_id("conversation_id", conversation_id)
        count = require_count("n", n)
        return self._window(
            owner, lambda: ContextWindow(count, lambda _: 1, least=1, is_even=True), None
        )

    @operation("messages")
    def get_context_window(
        self,
        conversation_id: str,
        *,
        max_tokens: int,
        count_tokens: Callable[[Message], int] | None = None,
        after: str | None = None,
    ) -> list[Message]:
        """Return the newest messages that are not flagged and fit into a model's window.

        They end where the next older message would not fit: if the newest one alone costs more than
        the window holds, there is none. The answers of tools are returned with their
        call: the nearest message before them with their `metadata["tool_call_id"]` in its
        `metadata["tool_calls"]`; without that id the nearest one of an assistant or a
        colleague. A call of which an answer is flagged or deleted is left out, and so is an answer
        without its call. A window ends before more than 100 answers in a row, so that its
        cost follows what it returns.

        Args:
            conversation_id: a conversation; one that is not stored has no messages.
            max_tokens: what the messages may cost together.
            count_tokens: returns the cost of a message; by default a quarter of the UTF-8 bytes
                of its `enhanced_message`, or of its `original_content` if that is empty, and of
                the JSON of its `metadata["tool_calls"]`, and 4.
            after: the id of the last message that a summary replaces: nothing up to that
                message is returned, nor an answer of a tool whose call is up to there.

        Returns:
            The messages, oldest first.

        Raises:
            NotFoundError: `after` is no message of this conversation.
        """
        owner = require_id("conversation_id", conversation_id)
        budget = require_count("max_tokens", max_tokens)
        if count_tokens is not None and not callable(count_tokens):
            raise TypeError(f"count_tokens must be callable, not {type(count_tokens).__name__}")
        count = count_tokens or estimated_tokens
        least = LEAST_TOKENS if count_tokens is None else 0
        return self._window(
            owner,
            lambda: ContextWindow(budget, count, least=least),
            optional_id("after", after),
        )

    def _window(
        self, conversation_id: str, new_window: Callable[[], ContextWindow], after: str | None
    ) -> list[Message]:
        row = None if after is None else self.backend.get_message(after)
        # What is of another conversation, which may be another user's, is not decrypted.
        if after is not None and (row is None or id_in(row, "conversation_id") != conversation_id):
            raise NotFoundError(f"after={after!r} is no message of this conversation")
        last = None if row is None else self._messages.record(row)
        later = set() if last is None else self._of_the_same_time(last)

        def is_within(message: Message) -> bool:
            return last is None or message.timestamp > last.timestamp or message.id in later

        while True:
            window = new_window()
            try:
                self._fill(window, conversation_id, None if last is None else is_within)
            except NotFoundError:
                # The last message of a page was deleted meanwhile: it has to be read anew.
                continue
            return window.messages()

    def _fill(
        self,
        window: ContextWindow,
        conversation_id: str,
        is_within: Callable[[Message], bool] | None,
    ) -> None:
        """Add the newest messages until the window is full, or one is not within it."""
        after: str | None = None
        calls = False
        while not window.is_full:
            size = window.page_size
            newest = NewestPage(conversation_id, "calls" if calls else "none", size, after)
            page = self._page(self._messages, self.backend.list_newest, newest)
            if is_within is not None:
                page = list(takewhile(is_within, page))
            is_last = len(page) < size
            # The call of a tool's answer without its id may be one of the flagged messages, so they
            # are read from there on.
            page, rest = (page, []) if calls else split_at_answer(page)
            window.add(page)
            if is_last and not rest:
                return
            # Where nearly all messages are flagged calls, reading them all would take long.
            are_few = calls and sum(message.is_flagged for message in page) * 2 <= size
            calls = bool(rest) or window.is_waiting or are_few
            after = page[-1].id if page else after

    def _of_the_same_time(self, message: Message) -> set[str]:
        """Return the ids of the messages after one that have its time, too."""
        later: set[str] = set()
        page = MessagePage("conversation_id", message.conversation_id, _SAME_TIME, message.id)
        while True:
            read = self._page(self._messages, self.backend.list_messages, page)
            later |= {one.id for one in read if one.timestamp == message.timestamp}
            if len(read) < _SAME_TIME or read[-1].timestamp > message.timestamp:
                return later
            page = page._replace(after=read[-1].id)

    @operation("messages")
    def delete_message(self, message_id: str) -> bool:
        """Delete a message and its trace, which sums of usage do not count any more.

        Returns:
            Whether the message was stored.
        """
        return self.backend.delete_message(require_id("message_id", message_id))

    @operation("messages")
    def flag_message(self, message_id: str, flagged: bool = True) -> bool:
        """Set or clear the flag that keeps a message out of the immediate context.

        Returns:
            Whether the message was stored.
        """
        if not isinstance(flagged, bool):
            raise TypeError(f"flagged must be True or False, not {type(flagged).__name__}")
        return self.backend.flag_message(require_id("message_id", message_id), flagged)
