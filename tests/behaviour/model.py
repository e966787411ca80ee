"""A simple model of a message store, to compare the stores with.

The order of records comes from dicts, which keep the order in which keys were first set, and from
stable sorts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from jazzmine import (
    ANY,
    NOTHING,
    AnyMessage,
    ConflictError,
    Conversation,
    IntegrityError,
    Message,
    NotFoundError,
    Nothing,
    TraceFilter,
    TurnTrace,
    UsageSummary,
)
from tests.behaviour.trace_model import is_tagged, keys_of, meets, summary_of
from tests.behaviour.window_model import window_of

AnyRecord = TypeVar("AnyRecord", Conversation, Message, TurnTrace)


class Model:
    """A message store in three dicts, with the methods of a store."""

    def __init__(self) -> None:
        self.conversations: dict[str, Conversation] = {}
        self.messages: dict[str, Message] = {}
        self.traces: dict[str, TurnTrace] = {}

    # Conversations

    def store_conversation(self, conversation: Conversation) -> None:
        self.conversations[conversation.id] = _copied(conversation)

    update_conversation = store_conversation

    def get_conversation_by_id(self, conversation_id: str) -> Conversation | None:
        return self.conversations.get(conversation_id)

    def get_conversations(self, **page: Any) -> list[Conversation]:
        return self._newest_conversations(lambda c: True, **page)

    def get_conversations_by_user_id(self, user_id: str, **page: Any) -> list[Conversation]:
        return self._newest_conversations(lambda c: c.user_id == user_id, **page)

    def get_conversations_by_agent_id(self, agent_id: str, **page: Any) -> list[Conversation]:
        return self._newest_conversations(lambda c: c.agent_id == agent_id, **page)

    def _newest_conversations(
        self,
        wanted: Callable[[Conversation], bool],
        *,
        where: dict[str, Any] | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Conversation]:
        latest_first = reversed(self.conversations.values())
        newest_first = sorted(latest_first, key=lambda c: -c.last_updated_at)
        rest = _page([c for c in newest_first if wanted(c)], after=after)
        return [c for c in rest if is_tagged(c, where or {})][:limit]

    def delete_conversation(self, conversation_id: str) -> bool:
        for message in list(self.messages.values()):
            if message.conversation_id == conversation_id:
                self.delete_message(message.id)
        return self.conversations.pop(conversation_id, None) is not None

    def get_or_create_conversation(self, conversation: Conversation) -> Conversation:
        if conversation.id not in self.conversations:
            self.store_conversation(conversation)
        return self.conversations[conversation.id]

    def edit_conversation(
        self,
        conversation_id: str,
        *,
        title: str | None,
        metadata: dict[str, Any] | None,
        default_title: str | None,
    ) -> Conversation:
        if conversation_id not in self.conversations:
            raise NotFoundError
        edited = self.conversations[conversation_id]
        edited.title = (edited.title or default_title or "") if title is None else title
        edited.metadata = _merged(edited.metadata, metadata or {})
        return edited

    def edit_message(self, message_id: str, **fields: Any) -> Message:
        if message_id not in self.messages:
            raise NotFoundError
        stored = self.messages[message_id]
        fields["metadata"] = _merged(stored.metadata, fields.pop("metadata", {}))
        self.messages[message_id] = stored.model_copy(update=fields)
        return self.messages[message_id]

    def move_user(self, from_user_id: str, to_user_id: str) -> int:
        moved = 0
        tables: list[dict[str, Any]] = [self.conversations, self.messages, self.traces]
        for records in tables:
            for record in records.values():
                if record.user_id == from_user_id != to_user_id:
                    record.user_id = to_user_id
                    moved += 1
        return moved

    def count_messages(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        return {each: len(self.get_messages_by_conversation_id(each)) for each in conversation_ids}

    def prune_conversations(
        self, *, before: int, limit: int, where: dict[str, Any] | None = None
    ) -> int:
        oldest = sorted(self.conversations.values(), key=lambda c: c.last_updated_at)
        pruned = 0
        for conversation in oldest:
            times = [m.timestamp for m in self.get_messages_by_conversation_id(conversation.id)]
            is_old = max([conversation.last_updated_at, *times]) < before
            if pruned < limit and is_old and is_tagged(conversation, where or {}):
                pruned += self.delete_conversation(conversation.id)
        return pruned

    def erase_user(self, user_id: str) -> tuple[int, int, int]:
        before = len(self.conversations), len(self.messages), len(self.traces)
        for conversation in list(self.conversations.values()):
            if conversation.user_id == user_id:
                self.delete_conversation(conversation.id)
        for message in self.get_messages_by_user_id(user_id):
            self.delete_message(message.id)
        for trace in list(self.traces.values()):
            if trace.user_id == user_id:
                del self.traces[trace.id]
        after = len(self.conversations), len(self.messages), len(self.traces)
        return before[0] - after[0], before[1] - after[1], before[2] - after[2]

    # Messages

    def store_message(self, message: Message) -> None:
        self.store_messages([message])

    update_message = store_message

    def store_messages(self, messages: Iterable[Message]) -> None:
        checked = [_copied(message) for message in messages]
        for message in checked:
            if message.conversation_id not in self.conversations:
                raise IntegrityError
            known = self.messages.get(message.id, message)
            owners = {one.conversation_id for one in checked if one.id == message.id}
            if owners != {known.conversation_id}:
                raise IntegrityError
        self.messages.update({message.id: message for message in checked})

    def get_message_by_id(self, message_id: str) -> Message | None:
        return self.messages.get(message_id)

    def get_messages_by_ids(self, message_ids: Iterable[str]) -> list[Message]:
        return [self.messages[one] for one in message_ids if one in self.messages]

    def get_messages_by_conversation_id(
        self, conversation_id: str, order: str = "oldest", **page: Any
    ) -> list[Message]:
        found = [m for m in self._oldest_messages() if m.conversation_id == conversation_id]
        return _page(found if order == "oldest" else found[::-1], **page)

    def get_messages_by_user_id(self, user_id: str, **page: Any) -> list[Message]:
        return _page([m for m in self._oldest_messages() if m.user_id == user_id], **page)

    def iter_messages(self, conversation_id: str, *, batch_size: int) -> list[Message]:
        return self.get_messages_by_conversation_id(conversation_id)

    def get_immediate_context(self, conversation_id: str, n: int) -> list[Message]:
        return self.get_context_window(conversation_id, max_tokens=n, cost=lambda _: 1)

    def _oldest_messages(self) -> list[Message]:
        return sorted(self.messages.values(), key=lambda m: m.timestamp)

    def delete_message(self, message_id: str) -> bool:
        for trace in list(self.traces.values()):
            if trace.message_id == message_id:
                del self.traces[trace.id]
        return self.messages.pop(message_id, None) is not None

    def flag_message(self, message_id: str, flagged: bool) -> bool:
        if message_id in self.messages:
            self.messages[message_id].is_flagged = flagged
        return message_id in self.messages

    # A conversation as a log

    def append_messages(
        self,
        conversation_id: str,
        messages: Iterable[Message],
        *,
        expected_last: str | AnyMessage | None = ANY,
        trace: TurnTrace | None = None,
        replace_after: str | Nothing | None = NOTHING,
    ) -> list[Message]:
        given = [_copied(message) for message in messages]
        wanted = [message.id for message in given]
        if trace is not None and trace.message_id not in wanted:
            raise ValueError
        if trace is not None and trace.conversation_id != conversation_id:
            raise ValueError
        if {message.conversation_id for message in given} - {conversation_id}:
            raise ValueError
        if len(set(wanted)) < len(wanted):
            raise ValueError
        if not given:
            return []
        if conversation_id not in self.conversations:
            raise IntegrityError
        stored = self.get_messages_by_ids(wanted)
        if [_content(one) for one in stored] == [_content(one) for one in given]:
            traced = {one.message_id for one in self.traces.values()}
            if trace is not None and trace.message_id not in traced:
                self.store_turn_trace(trace)
            return stored
        everything = self.get_messages_by_conversation_id(conversation_id)
        newest_id = everything[-1].id if everything else None
        is_elsewhere = {one.conversation_id for one in stored} - {conversation_id}
        if expected_last not in (ANY, newest_id) and not is_elsewhere:
            raise ConflictError(newest_id=newest_id)
        if stored:
            raise IntegrityError
        if trace is not None and self._belongs_elsewhere(trace, replace_after, everything):
            raise IntegrityError
        if replace_after is not NOTHING:
            self.rewind_conversation(conversation_id, after=replace_after)
            everything = self.get_messages_by_conversation_id(conversation_id)
        for message in given:
            message.timestamp = max([message.timestamp, *(one.timestamp for one in everything)])
            everything.append(message)
        self.store_messages(given)
        conversation = self.conversations[conversation_id]
        conversation.last_updated_at = max(conversation.last_updated_at, given[-1].timestamp)
        if trace is not None:
            self.store_turn_trace(trace)
        return self.get_messages_by_ids(wanted)

    def _belongs_elsewhere(
        self, trace: TurnTrace, replace_after: str | Nothing | None, everything: list[Message]
    ) -> bool:
        """Return whether a trace's id belongs to a message that an append does not replace."""
        if trace.id not in self.traces:
            return False
        present = [None, *(message.id for message in everything)]
        if replace_after is NOTHING or replace_after not in present:
            return replace_after is NOTHING
        return self.traces[trace.id].message_id not in present[present.index(replace_after) + 1 :]

    def pop_message(self, conversation_id: str) -> Message | None:
        everything = self.get_messages_by_conversation_id(conversation_id)
        if everything:
            self.delete_message(everything[-1].id)
        return everything[-1] if everything else None

    def rewind_conversation(self, conversation_id: str, *, after: str | None) -> int:
        later = self.get_messages_by_conversation_id(conversation_id, after=after)
        return sum(self.delete_message(message.id) for message in later)

    def fork_conversation(
        self, conversation_id: str, new_ids: dict[str, tuple[str, str | None]], copy: Conversation
    ) -> None:
        """Copy messages, by whose ids `new_ids` has the ids of the copy and of its trace."""
        self.store_conversation(copy)
        traces = {trace.message_id: trace for trace in self.traces.values()}
        for message_id, (new_id, _) in new_ids.items():
            moved = {"id": new_id, "conversation_id": copy.id}
            self.store_message(self.messages[message_id].model_copy(update=moved))
        for trace in [trace for trace in traces.values() if trace.message_id in new_ids]:
            new_id, trace_id = new_ids[trace.message_id]
            moved = {"id": str(trace_id), "message_id": new_id, "conversation_id": copy.id}
            moved["copied_from"] = trace.id
            self.store_turn_trace(trace.model_copy(update=moved))

    def is_copied(self, new_ids: Iterable[tuple[str, str]], copy: Conversation) -> bool:
        """Return whether a fork that is repeated may give these ids: its copies are there."""
        ids = dict(new_ids)
        there = [self.messages[new].conversation_id for new in ids.values() if new in self.messages]
        return there == [copy.id] * len(ids)

    def get_context_window(
        self,
        conversation_id: str,
        *,
        max_tokens: int,
        after: str | None = None,
        cost: Callable[[Message], int] | None = None,
    ) -> list[Message]:
        log = self.get_messages_by_conversation_id(conversation_id, after=after)
        return window_of(log, max_tokens, cost)

    # Traces

    def store_turn_trace(self, trace: TurnTrace) -> None:
        checked = _copied(trace)
        known = self.traces.get(trace.id)
        if trace.message_id not in self.messages:
            raise IntegrityError
        if known is not None and known.message_id != trace.message_id:
            raise IntegrityError
        if self.messages[trace.message_id].conversation_id != trace.conversation_id:
            raise IntegrityError
        for other in list(self.traces.values()):
            if other.message_id == trace.message_id and other.id != trace.id:
                del self.traces[other.id]
        self.traces[trace.id] = checked

    def get_turn_trace_by_id(self, trace_id: str) -> TurnTrace | None:
        return self.traces.get(trace_id)

    def get_turn_trace_by_message_id(self, message_id: str) -> TurnTrace | None:
        found = [trace for trace in self.traces.values() if trace.message_id == message_id]
        return found[0] if found else None

    def get_turn_traces_by_conversation_id(self, conversation_id: str) -> list[TurnTrace]:
        found = [t for t in self.traces.values() if t.conversation_id == conversation_id]
        return sorted(found, key=lambda t: t.turn_number)

    def get_turn_traces_by_agent_id(
        self, agent_id: str, limit: int, offset: int
    ) -> list[TurnTrace]:
        found = [trace for trace in self._newest_traces() if trace.agent_id == agent_id]
        return found[offset : offset + limit]

    def _newest_traces(self) -> list[TurnTrace]:
        latest_first = reversed(self.traces.values())
        return sorted(latest_first, key=lambda t: -t.started_at_ms)

    def store_turn(
        self,
        *,
        conversation: Conversation | None,
        messages: list[Message],
        trace: TurnTrace | None,
    ) -> None:
        for record in (conversation, *messages, trace):
            if record is not None:
                type(record).model_validate(record)
        before = dict(self.conversations), dict(self.messages), dict(self.traces)
        try:
            if conversation is not None:
                self.store_conversation(conversation)
            self.store_messages(messages)
            if trace is not None:
                self.store_turn_trace(trace)
        except Exception:
            self.conversations, self.messages, self.traces = before
            raise

    def find_turn_traces(
        self, where: TraceFilter, *, limit: int, after: str | None = None
    ) -> list[TurnTrace]:
        rest = _page(self._newest_traces(), after=after)
        return [trace for trace in rest if meets(trace, where)][:limit]

    def summarize_usage(self, where: TraceFilter, *, by: str) -> list[UsageSummary]:
        matching = self.find_turn_traces(where, limit=len(self.traces))
        found = [trace for trace in matching if trace.copied_from is None]
        keys = {key for trace in found for key in keys_of(trace, by)}
        groups = [
            summary_of(key, [trace for trace in found if key in keys_of(trace, by)], by)
            for key in sorted(keys)
        ]
        return sorted(groups, key=lambda group: -group.total_tokens)


def _content(message: Message) -> dict[str, Any]:
    """Return what must be the same for an append to be a repetition."""
    return message.model_dump(exclude={"timestamp", "is_flagged"})


def _merged(metadata: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return metadata with changes, of which None removes a key."""
    merged = {**metadata, **changes}
    return {key: merged[key] for key in merged if changes.get(key, 0) is not None}


def _copied(record: AnyRecord) -> AnyRecord:
    """Return a validated copy of a record."""
    return type(record).model_validate(record)


def _page(
    records: list[AnyRecord], *, limit: int | None = None, after: str | None = None
) -> list[AnyRecord]:
    if after is not None:
        if after not in [record.id for record in records]:
            raise NotFoundError
        records = records[[record.id for record in records].index(after) + 1 :]
    return records if limit is None else records[:limit]
