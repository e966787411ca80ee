"""The random calls that treat a conversation as a log, erase a user, or delete what is old."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from jazzmine import (
    ANY,
    NOTHING,
    ConflictError,
    Conversation,
    IntegrityError,
    Message,
    NotFoundError,
    ScopeError,
    TurnTrace,
)
from tests.behaviour.draws import (
    CONVERSATIONS,
    LOST,
    MESSAGES,
    conversation_ids,
    conversations,
    message_ids,
    messages,
    strays,
    tags,
    traces,
    user_ids,
)
from tests.behaviour.model import Model

NEWEST = "the newest"


class LogRules:
    """Rules of the state machine, which has the methods that are only declared here."""

    model: Model
    whole: Model
    forget_deleted: Callable[[], None]
    stored_conversation: Callable[[str], str]
    stored_message: Callable[[str], str]
    last_write: Any
    viewer: str | None
    call: Callable[..., Any]
    outcome: Callable[..., Any]
    read: Callable[..., Any]
    write: Callable[..., None]

    @rule(conversation=conversations)
    def get_or_create_conversation(self, conversation: Conversation) -> None:
        self.write("get_or_create_conversation", conversation)

    @rule(
        conversation_id=conversation_ids,
        several=st.lists(messages, min_size=1, max_size=3),
        strays=strays,
        expected=st.sampled_from([ANY, ANY, ANY, NEWEST, NEWEST, NEWEST, None, "m1"]),
        trace=st.none() | traces,
        replaced=st.sampled_from([NOTHING] * 6 + [None, *MESSAGES[:3]]),
    )
    def append_messages(
        self,
        conversation_id: str,
        several: list[Message],
        strays: bool,
        expected: Any,
        trace: TurnTrace | None,
        replaced: Any,
    ) -> None:
        conversation_id = self.stored_conversation(conversation_id)
        if not strays:
            moved = {"conversation_id": conversation_id}
            free = [one for one in MESSAGES if one not in self.whole.messages] or MESSAGES
            several = [
                message.model_copy(update={**moved, "id": free[number % len(free)]})
                for number, message in enumerate(several)
            ]
            if trace is not None:
                last = several[-1].id
                of_last = {**moved, "message_id": last, "id": f"t{last[1:]}"}
                trace = trace.model_copy(update=of_last)
        if expected == NEWEST:
            everything = self.model.get_messages_by_conversation_id(conversation_id)
            expected = everything[-1].id if everything else None
        if replaced in MESSAGES:
            replaced = self.message_within(conversation_id, replaced)
        turn = {"expected_last": expected, "trace": trace, "replace_after": replaced}
        self.write("append_messages", conversation_id, several, **turn)

    @rule(
        conversation_id=conversation_ids,
        title=st.none() | st.sampled_from(["", "a"]),
        metadata=st.none() | st.dictionaries(st.sampled_from("xy"), tags, max_size=2),
        default_title=st.none() | st.sampled_from(["", "b"]),
    )
    def edit_conversation(self, conversation_id: str, **fields: Any) -> None:
        self.write("edit_conversation", self.stored_conversation(conversation_id), **fields)

    @rule(where=st.dictionaries(st.sampled_from("xy"), tags, min_size=1), user_id=user_ids)
    def find_conversations(self, where: dict[str, Any], user_id: str) -> None:
        self.read("get_conversations", where=where)
        self.read("get_conversations_by_user_id", user_id, where=where, limit=2)

    @rule(
        message_id=message_ids,
        fields=st.fixed_dictionaries(
            {},
            optional={
                "original_content": st.sampled_from(["", "edited"]),
                "errors": st.none() | st.just(["late"]),
                "metadata": st.dictionaries(st.sampled_from("xy"), tags, max_size=2),
            },
        ),
    )
    def edit_message(self, message_id: str, fields: dict[str, Any]) -> None:
        self.write("edit_message", self.stored_message(message_id), **fields)

    @rule(several=st.lists(conversation_ids, max_size=3))
    def count_messages(self, several: list[str]) -> None:
        self.read("count_messages", several)

    @rule(conversation_id=conversation_ids)
    def pop_message(self, conversation_id: str) -> None:
        self.read("pop_message", self.stored_conversation(conversation_id))
        self.last_write = None

    def message_within(self, conversation_id: str, drawn: str) -> str:
        """Return the id of a message of a conversation."""
        everything = self.model.get_messages_by_conversation_id(conversation_id)
        is_needed = drawn != LOST and everything
        return everything[int(drawn[1:]) % len(everything)].id if is_needed else drawn

    @rule(conversation_id=conversation_ids, after=st.sampled_from([None, *MESSAGES, LOST]))
    def rewind_conversation(self, conversation_id: str, after: str | None) -> None:
        conversation_id = self.stored_conversation(conversation_id)
        after = after and self.message_within(conversation_id, after)
        self.write("rewind_conversation", conversation_id, after=after)

    @rule(
        conversation_id=conversation_ids,
        copy=conversations,
        until=st.none() | st.none() | message_ids,
    )
    def fork_conversation(
        self, conversation_id: str, copy: Conversation, until: str | None
    ) -> None:
        conversation_id = self.stored_conversation(conversation_id)
        until = until and self.message_within(conversation_id, until)
        free = [c for c in CONVERSATIONS if c not in self.whole.conversations]
        if free and (copy.title or until is None):
            copy = copy.model_copy(update={"id": free[0]})
        everything = [m.id for m in self.model.get_messages_by_conversation_id(conversation_id)]
        known = self.model.get_conversation_by_id(conversation_id)
        there, seen = self.whole.get_conversation_by_id(copy.id), self.model.get_conversation_by_id
        new_ids = self.outcome(self.call, "fork_conversation", conversation_id, copy, until=until)
        self.last_write = None
        if self.viewer not in (None, copy.user_id):
            assert new_ids is ScopeError
        elif new_ids is NotFoundError:
            assert known is None or until not in (None, *everything)
        elif new_ids is ConflictError:
            assert seen(copy.id) is not None
        elif new_ids is IntegrityError:  # the id is another user's
            assert there is not None
            assert seen(copy.id) is None
        elif there is not None:
            assert self.model.is_copied(new_ids.items(), copy)
        else:
            assert list(new_ids) == (
                everything[: everything.index(until) + 1] if until else everything
            )
            assert self.whole.get_messages_by_ids(new_ids.values()) == []
            traces = self.call("get_turn_traces_by_conversation_id", copy.id)
            trace_ids = {trace.message_id: trace.id for trace in traces}
            chosen = {old: (new, trace_ids.get(new)) for old, new in new_ids.items()}
            self.whole.fork_conversation(conversation_id, chosen, copy)
            assert self.call("fork_conversation", conversation_id, copy, until=until) == new_ids
            self.read("get_messages_by_conversation_id", copy.id)

    @rule(
        conversation_id=conversation_ids,
        max_tokens=st.sampled_from([0, 4, 5, 10, 25]),  # a message costs 5, or 4 without a text
        after=st.none() | message_ids,
    )
    def read_a_window(self, conversation_id: str, after: str | None, **window: Any) -> None:
        conversation_id = self.stored_conversation(conversation_id)
        after = after and self.message_within(conversation_id, after)
        self.read("get_context_window", conversation_id, after=after, **window)

    @rule(
        what=st.sampled_from(["delete_conversation", "erase_user", "move_user"]),
        conversation_id=conversation_ids,
        user_id=user_ids,
        other_user_id=user_ids,
    )
    def remove_much(
        self, what: str, conversation_id: str, user_id: str, other_user_id: str
    ) -> None:
        if what == "erase_user":
            self.erase_user(user_id)
        elif what == "delete_conversation":
            self.write("delete_conversation", self.stored_conversation(conversation_id))
        else:
            self.read("move_user", user_id, other_user_id)
            self.last_write = None
        self.forget_deleted()

    def erase_user(self, user_id: str) -> None:
        expected = self.outcome(self.model.erase_user, user_id)
        found = self.outcome(self.call, "erase_user", user_id)
        if found is not ScopeError:
            found = (found.conversations, found.messages, found.traces)
        assert found == expected, f"erase_user returned {found!r}, not {expected!r}"
        self.last_write = None

    @rule(
        before=st.sampled_from([86_400_001, 86_400_000, 1, 0]),
        limit=st.sampled_from([1, 100]),
        where=st.none() | st.dictionaries(st.sampled_from("xy"), tags, max_size=1),
    )
    def prune_conversations(self, before: int, limit: int, where: dict[str, Any] | None) -> None:
        self.read("prune_conversations", before=before, limit=limit, where=where)
        self.last_write = None
        self.forget_deleted()
