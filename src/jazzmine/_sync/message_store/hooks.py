"""What a back end of a message store has to provide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from jazzmine.records.base import Snapshot
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary

__all__ = ["MessageStoreHooks"]


class MessageStoreHooks(ABC):
    """The work of each method of `MessageStore`, behind its checks.

    Ids are non-empty strings, numbers are in range, records are valid and nobody else's.
    """

    @abstractmethod
    def _open(self) -> None:
        """Get ready; on failure leave nothing behind."""

    @abstractmethod
    def _close(self) -> None:
        """Release everything; called once."""

    @abstractmethod
    def _ping(self) -> None: ...

    @abstractmethod
    def _store_conversation(self, conversation: Snapshot[Conversation]) -> None: ...

    @abstractmethod
    def _conversation(self, conversation_id: str) -> Conversation | None: ...

    @abstractmethod
    def _conversations_of_user(
        self, user_id: str, limit: int | None, after: str | None
    ) -> list[Conversation]: ...

    @abstractmethod
    def _conversations_of_agent(
        self, agent_id: str, limit: int | None, after: str | None
    ) -> list[Conversation]: ...

    @abstractmethod
    def _delete_conversation(self, conversation_id: str) -> bool: ...

    @abstractmethod
    def _store_messages(self, messages: Sequence[Snapshot[Message]]) -> None:
        """Store at least one message."""

    @abstractmethod
    def _message(self, message_id: str) -> Message | None: ...

    @abstractmethod
    def _messages(self, message_ids: Sequence[str]) -> list[Message]: ...

    @abstractmethod
    def _messages_of_conversation(
        self, conversation_id: str, limit: int | None, after: str | None
    ) -> list[Message]: ...

    @abstractmethod
    def _messages_of_user(
        self, user_id: str, limit: int | None, after: str | None
    ) -> list[Message]: ...

    @abstractmethod
    def _batches(self, conversation_id: str, size: int) -> Iterator[list[Message]]:
        """Yield the conversation's messages, oldest first, also while others change."""

    @abstractmethod
    def _newest_visible(self, conversation_id: str, n: int) -> list[Message]:
        """Return at least one newest message that is not flagged, oldest first."""

    @abstractmethod
    def _delete_message(self, message_id: str) -> bool: ...

    @abstractmethod
    def _flag_message(self, message_id: str, flagged: bool) -> bool: ...

    @abstractmethod
    def _store_trace(self, trace: Snapshot[TurnTrace]) -> None: ...

    @abstractmethod
    def _trace(self, trace_id: str) -> TurnTrace | None: ...

    @abstractmethod
    def _trace_of_message(self, message_id: str) -> TurnTrace | None: ...

    @abstractmethod
    def _traces_of_conversation(self, conversation_id: str) -> list[TurnTrace]: ...

    @abstractmethod
    def _traces_of_agent(self, agent_id: str, limit: int, offset: int) -> list[TurnTrace]: ...

    @abstractmethod
    def _store_turn(
        self,
        conversation: Snapshot[Conversation] | None,
        messages: Sequence[Snapshot[Message]],
        trace: Snapshot[TurnTrace] | None,
    ) -> None:
        """Store at least one of the three."""

    @abstractmethod
    def _find_traces(
        self, where: TraceFilter, limit: int, after: str | None
    ) -> list[TurnTrace]: ...

    @abstractmethod
    def _summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]: ...
