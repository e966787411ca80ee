"""The methods of a message store about traces, and the one for all records of a turn."""

from __future__ import annotations

from collections.abc import Iterable

from jazzmine._async.message_store.records import KeepRows, StoredRecords
from jazzmine._async.operation import operation
from jazzmine.records.arguments import require_choice, require_count, require_id
from jazzmine.records.base import snapshot, snapshot_all
from jazzmine.records.conversation_log import distinct
from jazzmine.records.hook_arguments import TracePage, Turn
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import USAGE_KEYS, TraceFilter, UsageKey, UsageSummary

__all__ = ["TraceMethods"]


class TraceMethods(StoredRecords):
    """Stores, finds and sums up traces."""

    @operation()
    async def store_turn_trace(self, trace: TurnTrace) -> None:
        """Store a turn's trace, in place of any other that its message has.

        Raises:
            IntegrityError: its message is not stored, its id belongs to another message, or it
                names another conversation than its message.
        """
        await self._put(Turn(traces=[snapshot(trace, TurnTrace)]))

    @operation("traces")
    async def get_turn_trace_by_id(self, trace_id: str) -> TurnTrace | None:
        """Return the trace, or None."""
        row = await self.backend.get_trace("id", require_id("trace_id", trace_id))
        return None if row is None else self._traces.record(row)

    @operation("traces")
    async def get_turn_trace_by_message_id(self, message_id: str) -> TurnTrace | None:
        """Return the trace of a message, or None."""
        row = await self.backend.get_trace("message_id", require_id("message_id", message_id))
        return None if row is None else self._traces.record(row)

    @operation("traces")
    async def get_turn_traces_by_conversation_id(self, conversation_id: str) -> list[TurnTrace]:
        """Return a conversation's traces by `turn_number`, ascending."""
        owner = require_id("conversation_id", conversation_id)
        rows = await self.backend.list_conversation_traces(owner)
        return await self._decoded(self._traces, rows, owner)

    @operation("traces")
    async def get_turn_traces_by_agent_id(
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
        rows = await self.backend.find_traces(page)
        return await self._decoded(self._traces, rows)

    @operation()
    async def store_turn(
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
            await self._put(turn)

    @operation("traces")
    async def find_turn_traces(
        self, where: TraceFilter, *, limit: int = 100, after: str | None = None
    ) -> list[TurnTrace]:
        """Return the traces that match a filter, newest `started_at_ms` first.

        Equal ones come latest stored first.

        Raises:
            NotFoundError: `after` is the id of no trace.
        """
        wanted = snapshot(where, TraceFilter).record
        return await self._find_traces(wanted, require_count("limit", limit), after)

    async def _find_traces(
        self, where: TraceFilter, limit: int, after: str | None, keep: KeepRows | None = None
    ) -> list[TurnTrace]:
        self._require_readable(where)
        page = TracePage(where, limit, after)
        return await self._page(self._traces, self.backend.find_traces, page, keep)

    @operation("summaries")
    async def summarize_usage(self, where: TraceFilter, *, by: UsageKey) -> list[UsageSummary]:
        """Sum up the traces that match a filter, one summary per group, most tokens first.

        Args:
            where: which traces to sum up.
            by: "agent", "user", "conversation", "intent", "model" or "day" (UTC).
        """
        wanted = snapshot(where, TraceFilter).record
        self._require_readable(wanted)
        return await self.backend.summarize(wanted, require_choice("by", by, USAGE_KEYS))
