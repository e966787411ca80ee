"""What a back end of the message store has to provide."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from jazzmine._sync.store import Backend
from jazzmine.errors import ConfigurationError
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.conversation_log import DeletedCounts, Refusal
from jazzmine.records.hook_arguments import (
    Append,
    ConversationPage,
    Fork,
    MessagePage,
    NewestPage,
    TracePage,
    Turn,
)
from jazzmine.records.messages import Conversation
from jazzmine.records.rows import Row
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary
from jazzmine.search.analyser import analyser_for
from jazzmine.search.query import Clause, FoundPage, SearchScope, SearchState
from jazzmine.search.ranking import Counts

TraceKey: TypeAlias = Literal["id", "message_id"]


class Batch(NamedTuple):
    """Some rows of a long listing, and where the next ones begin."""

    rows: Sequence[Row]
    cursor: Any


class MessageBackend(Backend):
    """The hooks of a message store, each of them one step that other calls see whole or not at all.

    Arguments are checked before a hook is called: ids are non-empty strings, numbers are in range,
    and a snapshot holds a valid record that no other code refers to. A hook returns rows as they
    are stored, and the store decodes them. Every write may be repeated after its outcome was lost.

    In a listing, records with equal sort values keep the order in which their ids were first
    stored. With `after`, a page begins after the record with that id; `NotFoundError` is raised if
    that record is not in the listing.
    """

    #: The language of the search index that the configuration asks for; None is no index.
    search_language: str | None = None

    def settle_search(self) -> None:
        """Make the search index that is asked for, if nothing is stored yet.

        Raises:
            ConfigurationError: something is stored, and the store has no index, or another one.
            ImportError: the package for the stems of its language is not installed.
        """
        language, state = self.search_language, self.search_state()
        if language is not None and (state is None or state.language != language):
            analyser_for(language)
            if self.list_conversations(ConversationPage(None, "", {}, 1, None)):
                # Another process may have made the index, and stored something, meanwhile.
                state = self.search_state()
                if state is not None and state.language == language:
                    return
                other = "has none" if state is None else f"has search {state.language or True!r}"
                option = f" --language {language}" if language else ""
                raise ConfigurationError(
                    f"the configuration says search {language or True!r}, and the store {other};"
                    f" the command `jazzmine index{option}` adds or changes it"
                )
            self.make_search(language)
        elif state is not None:
            analyser_for(state.language)

    # Writes

    @abstractmethod
    def store(self, turn: Turn) -> None:
        """Store the conversations, the messages and the traces, in this order, all or nothing.

        A record takes the place of the one with its id, and a trace also that of another trace of
        its message.

        Raises:
            IntegrityError: a message's conversation or a trace's message is not stored, a message
                with the id is in another conversation, the trace's id belongs to another message,
                or the trace names another conversation than its message.
        """

    @abstractmethod
    def flag_message(self, message_id: str, flagged: bool) -> bool:
        """Set a message's `is_flagged`; return whether the message was stored."""

    @abstractmethod
    def delete_message(self, message_id: str) -> bool:
        """Delete a message and its trace; return whether the message was stored."""

    @abstractmethod
    def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation, its messages and their traces; return whether it was stored."""

    @abstractmethod
    def create_conversation(self, conversation: Snapshot[Conversation]) -> Row | None:
        """Store a conversation if there is none with its id.

        Returns:
            The row that was stored already, or None if the conversation is stored now.
        """

    @abstractmethod
    def rewrite(
        self,
        kind: RecordKind,
        ids: Sequence[str],
        change: Callable[[Row], Snapshot[Any] | None],
    ) -> Sequence[str]:
        """Store other versions of some records, each in place of the very row that it was made of.

        A record that is not stored is left out; all that identifies and sorts a row stays. `change`
        may be called several times for a record, with what is stored then, perhaps in another
        thread; None leaves the row as it is, and what it raises ends the call, with some of the
        records stored perhaps. The search index follows a message whose text changes.

        Returns:
            The ids of the records that are stored in their new version.
        """

    @abstractmethod
    def move_user(self, from_user_id: str, to_user_id: str) -> int:
        """Make all records of one user another's, in one step; return how many there were."""

    # A conversation as a log

    @abstractmethod
    def append(self, given: Append) -> int | Refusal:
        """Store messages after all others of the conversation.

        Nothing is written if one of the ids is stored already, the conversation or `replace_after`
        is not stored, or another message than `expected_last` is the newest: the refusal says what
        was found, and the store decides what that means. Otherwise, in one step: the messages
        after `replace_after` are deleted with their traces, `floor` is the `timestamp` of the
        newest message that is left (`MIN_INT` if there is none), each of the given messages is
        stored with a `timestamp` of at least `floor`, the trace is stored, and the conversation's
        `last_updated_at` is raised to the last stored `timestamp`, if it is lower.

        Returns:
            `floor`, or why nothing was written.
        """

    @abstractmethod
    def pop(self, conversation_id: str, check: Callable[[Row], object]) -> Row | None:
        """Delete the newest message, flagged or not, with its trace, and return it, or None.

        A row for which `check` raises an error stays stored.
        """

    @abstractmethod
    def rewind(self, conversation_id: str, after: str | None) -> int:
        """Delete the messages after one, or all, and their traces; return how many.

        Raises:
            NotFoundError: `after` is no message of the conversation.
        """

    @abstractmethod
    def fork(self, fork: Fork) -> dict[str, str]:
        """Store a conversation with copies of another one's messages and their traces.

        The copies have the same order. Their ids are new, and the same again if the call is
        repeated, as those of `forked_id` are. Message and trace name the new conversation, and a
        trace the copy of its message, and in `copied_from` the trace that it is a copy of; all
        other fields are the same.

        Returns:
            The copies' ids by the messages' ids, in their order.

        Raises:
            NotFoundError: the conversation is not stored, or `until` is no message of it.
            ConflictError: a conversation with the new one's id is stored.
        """

    # Erasure and retention. Each call is one transaction of bounded size (a back end that writes
    # everything at once may ignore `limit`), and is called again until nothing is left.

    #: How many records a step deletes: fewer would cost less than their transaction, and other
    #: calls may have to wait for a step.
    deleted_at_once: int = 100

    @abstractmethod
    def newest_sequence(self) -> Any:
        """Return a bound for `erase`: records whose ids are first stored later are beyond it."""

    @abstractmethod
    def erase(self, user_id: str, limit: int, newest: Any) -> DeletedCounts:
        """Delete some of a user's records, about `limit`; none are left if the counts are all 0.

        The user's conversations with all their messages and traces, the user's messages elsewhere
        with their traces, and the traces that name the user. A record is deleted only if it is
        the user's at that moment. A conversation is deleted in one step with the last of its
        messages. Nothing else that the back end keeps holds the user's id or text when the step
        that returns all 0 has returned.

        What was first stored after `newest_sequence` returned `newest` stays, so that an erasure
        ends beside other writers; but a conversation goes with everything in it.
        """

    @abstractmethod
    def prune(self, conversations: Sequence[Row], before: int, limit: int) -> tuple[int, int]:
        """Delete about `limit` records of old conversations, those of the first one first.

        Of each, the oldest messages first, and the conversation in one step with the last of them.
        One that has a `last_updated_at` or a message's `timestamp` of `before` or later in the
        transaction is left as it is, and one whose `metadata` differs from that of its row.

        Returns:
            How many conversations were deleted, and how many of the first rows need no other step.
        """

    @abstractmethod
    def iter_old(
        self, before: int, size: int, user_id: str | None = None
    ) -> Iterator[Sequence[Row]]:
        """Yield up to `size` rows of conversations to prune, oldest `last_updated_at` first.

        Those whose `last_updated_at` is less than `before`. Some that have a newer message may be
        there, which `prune` leaves as they are.
        """

    # Reads

    @abstractmethod
    def get_conversation(self, conversation_id: str) -> Row | None:
        """Return the row of a conversation, or None."""

    @abstractmethod
    def get_message(self, message_id: str) -> Row | None:
        """Return the row of a message, or None."""

    @abstractmethod
    def get_trace(self, by: TraceKey, key: str) -> Row | None:
        """Return the row of a trace by its id or its message's, or None."""

    @abstractmethod
    def get_messages(self, message_ids: Sequence[str]) -> Sequence[Row]:
        """Return the rows that are stored, in the order of the ids; there is at least one id."""

    @abstractmethod
    def list_conversations(self, page: ConversationPage) -> Sequence[Row]:
        """Return a page by `last_updated_at`, newest first; equal ones latest stored first."""

    @abstractmethod
    def list_messages(self, page: MessagePage) -> Sequence[Row]:
        """Return a page by `timestamp`, oldest first; equal ones first stored first."""

    @abstractmethod
    def next_messages(self, conversation_id: str, cursor: Any, size: int) -> Batch:
        """Return up to `size` messages after a cursor, in the order of `list_messages`.

        A message that was deleted meanwhile is a cursor all the same; None is the first page.
        """

    @abstractmethod
    def list_newest(self, page: NewestPage) -> Sequence[Row]:
        """Return a page of a conversation's messages, newest first, in one round trip."""

    @abstractmethod
    def count_messages(self, conversation_ids: Sequence[str]) -> dict[str, int]:
        """Return the numbers of messages; a conversation without any may be left out."""

    @abstractmethod
    def list_conversation_traces(self, conversation_id: str) -> Sequence[Row]:
        """Return all traces by `turn_number`, ascending; equal ones first stored first."""

    @abstractmethod
    def find_traces(self, page: TracePage) -> Sequence[Row]:
        """Return a page by `started_at_ms`, newest first; equal ones latest stored first."""

    @abstractmethod
    def summarize(self, where: TraceFilter, by: UsageKey) -> list[UsageSummary]:
        """Return the sums of the traces that match, most tokens first, equal ones by key.

        Copies (`copied_from`) are left out: what they cost is counted once.
        """

    @abstractmethod
    def iter_stored(
        self, kinds: Sequence[RecordKind], size: int
    ) -> Iterator[tuple[RecordKind, Sequence[Row]]]:
        """Yield all records of some kinds, each in the order in which ids were first stored.

        They are those of one moment where the back end can read so: on PostgreSQL.
        """

    # Search: a store may have an index of the words of its messages, which every write keeps up to
    # date in its own step. Without one, none of the other hooks is called, and it costs nothing.

    @abstractmethod
    def search_state(self) -> SearchState | None:
        """Return how the index was made, or None if the store has none; read anew each time."""

    @abstractmethod
    def prepare_search(self) -> SearchState | None:
        """Return the same as `search_state`, before a search.

        What processes have stored that do not know of the index is indexed first.
        """

    @abstractmethod
    def make_search(self, language: str | None) -> None:
        """Make an index for a language, in place of one for another language; None removes it.

        What is stored from then on is indexed, and messages that are stored already are left to
        `fill_search`.
        """

    @abstractmethod
    def fill_search(self, size: int) -> int | None:
        """Index about `size` messages that are not yet, in one transaction beside other writes.

        Returns:
            How many were indexed; None if none was left, so that the index is complete.
        """

    @abstractmethod
    def count_found(self, clauses: Sequence[Clause], scope: SearchScope) -> Counts:
        """Count the messages of a scope, and those of them that have all terms of each clause.

        Flagged ones count, too. Counting ends at `MOST_MESSAGES_COUNTED`, and at
        `MOST_FOUND_COUNTED`.
        """

    @abstractmethod
    def list_found(self, page: FoundPage) -> Sequence[Row]:
        """Return messages that have all terms of some clauses, newest first.

        Equal timestamps come latest stored first. The body of a row is the message's index entry.
        """
