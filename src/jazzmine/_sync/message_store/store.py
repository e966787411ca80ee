"""The message store: its public methods, and the checks that all back ends share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from time import time_ns
from typing import Any

from jazzmine._sync.message_store.records import KeepRows
from jazzmine._sync.message_store.searching import SearchMethods
from jazzmine._sync.operation import operation, step
from jazzmine.records.arguments import (
    optional_id,
    require_choice,
    require_count,
    require_id,
    require_metadata,
    require_time,
)
from jazzmine.records.base import snapshot, snapshot_all
from jazzmine.records.conversation_log import DeletedCounts, distinct
from jazzmine.records.hook_arguments import TracePage, Turn
from jazzmine.records.json_values import contains
from jazzmine.records.log import Erasure
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.rows import Row
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

# How many conversations are chosen at a time to be pruned.
_OLD_AT_ONCE = 50


class MessageStore(SearchMethods):
    """Conversations, their messages, and a trace of every turn.

    On every back end:

    - Messages are ordered by `timestamp`, equal ones by the order in which their ids were
      first stored; storing one again never moves it.
    - A write that returned is durable, and each may be repeated: nothing is doubled. One that
      raised changed nothing, except that after `StoreUnavailableError` it is not known whether
      it took effect.
    - A message never moves to another conversation, nor a trace to another message.
    - `after` is the id of the last record of the page before; `limit=None` is no limit.
    - What a method returns belongs to the caller.

    Every method raises `TypeError` for an id or a record of another type, `ValidationError`
    for a value that the back ends cannot hold, `ValueError` for a number out of range,
    `StoreClosedError` after `close()`, `StoreUnavailableError` when the server cannot be
    reached, and `OSError` when the file of a JSON store cannot be read or written.
    """

    scope = "jazzmine.message_store"

    @classmethod
    def initialize(
        cls, config: Mapping[str, object] | str | os.PathLike[str] | None = None
    ) -> MessageStore:
        """Open a store.

        Args:
            config: a mapping with `storage` ("json" by default) and the options of that back
                end, a URL such as `json:messages.json`, or a path whose end says what is there,
                such as `Path("agent.db")`; None takes the URL in the environment variable
                JAZZMINE_MESSAGE_STORE, or else `json:messages.json`.

        Raises:
            ConfigurationError: the configuration has an unknown key or a wrong value.
            ImportError: the back end's driver is not installed.
            StoreUnavailableError: the server cannot be reached.
            OSError, JSONDecodeError, ValidationError: the file cannot be read.
        """
        # Only a program that opens a store pays for this import.
        from jazzmine._sync.factory import new_message_store
        from jazzmine.config import message_store_config

        store: MessageStore = new_message_store(message_store_config(config))
        return store._initialized()

    # Traces

    @operation()
    def store_turn_trace(self, trace: TurnTrace) -> None:
        """Store a turn's trace, in place of any other that its message has.

        Raises:
            IntegrityError: its message is not stored, its id belongs to another message, or it
                names another conversation than its message.
        """
        self._put(Turn(traces=[snapshot(trace, TurnTrace)]))

    @operation("traces")
    def get_turn_trace_by_id(self, trace_id: str) -> TurnTrace | None:
        """Return the trace, or None."""
        row = self.backend.get_trace("id", require_id("trace_id", trace_id))
        return None if row is None else self._traces.record(row)

    @operation("traces")
    def get_turn_trace_by_message_id(self, message_id: str) -> TurnTrace | None:
        """Return the trace of a message, or None."""
        row = self.backend.get_trace("message_id", require_id("message_id", message_id))
        return None if row is None else self._traces.record(row)

    @operation("traces")
    def get_turn_traces_by_conversation_id(self, conversation_id: str) -> list[TurnTrace]:
        """Return a conversation's traces by `turn_number`, ascending."""
        owner = require_id("conversation_id", conversation_id)
        rows = self.backend.list_conversation_traces(owner)
        return self._decoded(self._traces, rows, owner)

    @operation("traces")
    def get_turn_traces_by_agent_id(
        self, agent_id: str, limit: int = 100, offset: int = 0
    ) -> list[TurnTrace]:
        """Return an agent's traces, newest `started_at_ms` first, equal ones latest stored first.

        Args:
            agent_id: the agent.
            limit: the maximum number of traces.
            offset: how many of the newest traces to skip.
        """
        owner = require_id("agent_id", agent_id)
        count, skipped = require_count("limit", limit), require_count("offset", offset)
        if not count:
            return []
        page = TracePage(TraceFilter(agent_id=owner), count, offset=skipped)
        rows = self.backend.find_traces(page)
        return self._decoded(self._traces, rows)

    @operation()
    def store_turn(
        self,
        *,
        conversation: Conversation | None = None,
        messages: Iterable[Message] = (),
        trace: TurnTrace | None = None,
    ) -> None:
        """Store the records of a turn, all of them or none; safe to repeat.

        Args:
            conversation: the conversation as it is after the turn.
            messages: the turn's messages.
            trace: the turn's trace; its message may be one of `messages`.

        Raises:
            IntegrityError: as in `store_messages` and `store_turn_trace`.
        """
        turn = Turn(
            [] if conversation is None else [snapshot(conversation, Conversation)],
            distinct(snapshot_all(messages, Message)),
            [] if trace is None else [snapshot(trace, TurnTrace)],
        )
        if any(turn):
            self._put(turn)

    @operation("traces")
    def find_turn_traces(
        self, where: TraceFilter, *, limit: int = 100, after: str | None = None
    ) -> list[TurnTrace]:
        """Return the traces that match a filter, newest `started_at_ms` first.

        Equal ones come latest stored first.

        Raises:
            NotFoundError: `after` is the id of no trace.
        """
        wanted = snapshot(where, TraceFilter).record
        return self._find_traces(wanted, require_count("limit", limit), after)

    def _find_traces(
        self, where: TraceFilter, limit: int, after: str | None, keep: KeepRows | None = None
    ) -> list[TurnTrace]:
        self._require_readable(where)
        page = TracePage(where, limit, after)
        return self._page(self._traces, self.backend.find_traces, page, keep)

    @operation("summaries")
    def summarize_usage(self, where: TraceFilter, *, by: UsageKey) -> list[UsageSummary]:
        """Sum up the traces that match a filter, one summary per group, most tokens first.

        Args:
            where: which traces to sum up.
            by: "agent", "user", "conversation", "intent", "model" or "day" (UTC).
        """
        wanted = snapshot(where, TraceFilter).record
        self._require_readable(wanted)
        return self.backend.summarize(wanted, require_choice("by", by, UsageKey))

    # Erasure and retention

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
        total, newest = DeletedCounts(), self.backend.newest_sequence()
        while True:
            with step():
                erased = self.backend.erase(owner, self.backend.deleted_at_once, newest)
            if not any(erased):
                return Erasure(**total._asdict(), erased_at=time_ns() // 1_000_000)
            total = total.plus(erased)
            self.require_open()

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

        user = optional_id("user_id", user_id)
        pruned = 0
        for rows in self.backend.iter_old(bound, _OLD_AT_ONCE, user):
            left = [row for row in rows if matches(row)] if condition else rows
            while left and pruned < wanted:
                with step():
                    deleted, done = self.backend.prune(
                        left[: wanted - pruned], bound, self.backend.deleted_at_once
                    )
                pruned, left = pruned + deleted, left[done:]
                self.require_open()
            if pruned == wanted:
                break
        if pruned:
            self.backend.purge()
        return pruned
