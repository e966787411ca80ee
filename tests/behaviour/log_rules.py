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
    Message,
    NotFoundError,
    TurnTrace,
)
from tests.behaviour.draws import (
    CONVERSATIONS,
    MESSAGES,
    conversation_ids,
    conversations,
    message_ids,
    messages,
    tags,
    traces,
    user_ids,
)
from tests.behaviour.model import Model

NEWEST = "the newest"


class LogRules:
    """Rules of the state machine, which has the methods that are only declared here."""

    model: Model
    last_write: Any
    call: Callable[..., Any]
    read: Callable[..., Any]
    write: Callable[..., None]

    @rule(conversation=conversations)
    def get_or_create_conversation(self, conversation: Conversation) -> None:
        self.write("get_or_create_conversation", conversation)

    @rule(
        conversation_id=conversation_ids,
        several=st.lists(messages, min_size=1, max_size=3),
        strays=st.just(False) | st.just(False) | st.booleans(),
        expected=st.sampled_from([ANY, NEWEST, NEWEST, None, *MESSAGES[:2]]),
        trace=st.none() | traces,
        replaced=st.sampled_from([NOTHING, NOTHING, NOTHING, None, *MESSAGES[:2]]),
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
        if not strays:
            moved = {"conversation_id": conversation_id}
            several = [message.model_copy(update=moved) for message in several]
            if trace is not None:
                of_last = {**moved, "message_id": several[-1].id}
                trace = trace.model_copy(update=of_last)
        if expected == NEWEST:
            everything = self.model.get_messages_by_conversation_id(conversation_id)
            expected = everything[-1].id if everything else None
        turn = {"expected_last": expected, "trace": trace, "replace_after": replaced}
        self.write("append_messages", conversation_id, several, **turn)

    @rule(
        conversation_id=conversation_ids,
        title=st.none() | st.sampled_from(["", "a"]),
        metadata=st.none() | st.dictionaries(st.sampled_from("xy"), tags, max_size=2),
        default_title=st.none() | st.sampled_from(["", "b"]),
    )
    def edit_conversation(self, conversation_id: str, **fields: Any) -> None:
        self.write("edit_conversation", conversation_id, **fields)

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
        self.write("edit_message", message_id, **fields)

    @rule(from_user_id=user_ids, to_user_id=user_ids)
    def move_user(self, from_user_id: str, to_user_id: str) -> None:
        self.read("move_user", from_user_id, to_user_id)
        self.last_write = None

    @rule(several=st.lists(conversation_ids, max_size=3))
    def count_messages(self, several: list[str]) -> None:
        self.read("count_messages", several)

    @rule(conversation_id=conversation_ids)
    def pop_message(self, conversation_id: str) -> None:
        self.read("pop_message", conversation_id)
        self.last_write = None

    @rule(conversation_id=conversation_ids, after=st.none() | message_ids | st.integers(0, 2))
    def rewind_conversation(self, conversation_id: str, after: str | int | None) -> None:
        # Of the drawn ids, few are in the drawn conversation.
        everything = self.model.get_messages_by_conversation_id(conversation_id)
        if isinstance(after, int):
            after = everything[after % len(everything)].id if everything else None
        self.write("rewind_conversation", conversation_id, after=after)

    @rule(
        conversation_id=conversation_ids,
        copy=conversations,
        until=st.none() | st.none() | message_ids,
    )
    def fork_conversation(
        self, conversation_id: str, copy: Conversation, until: str | None
    ) -> None:
        # Of the drawn ids, most are those of conversations that are stored.
        free = [c for c in CONVERSATIONS if self.model.get_conversation_by_id(c) is None]
        if free and copy.title:
            copy = copy.model_copy(update={"id": free[0]})
        everything = [m.id for m in self.model.get_messages_by_conversation_id(conversation_id)]
        try:
            new_ids = self.call("fork_conversation", conversation_id, copy, until=until)
        except NotFoundError:
            known = self.model.get_conversation_by_id(conversation_id) is not None
            assert not known or until not in (None, *everything)
            return
        except ConflictError:
            assert self.model.get_conversation_by_id(copy.id) is not None
            return
        if self.model.get_conversation_by_id(copy.id) is not None:
            assert self.model.is_copied(new_ids.items(), copy)
            return
        copied = everything[: everything.index(until) + 1] if until else everything
        assert list(new_ids) == copied
        assert self.model.get_messages_by_ids(new_ids.values()) == []
        traces = self.call("get_turn_traces_by_conversation_id", copy.id)
        trace_ids = {trace.message_id: trace.id for trace in traces}
        chosen = {old: (new, trace_ids.get(new)) for old, new in new_ids.items()}
        self.model.fork_conversation(conversation_id, chosen, copy)
        self.last_write = None

    @rule(
        conversation_id=conversation_ids,
        max_tokens=st.sampled_from([0, 4, 5, 10, 25]),  # a message costs 5, or 4 without a text
        after=st.none() | message_ids,
    )
    def read_a_window(self, conversation_id: str, **window: Any) -> None:
        self.read("get_context_window", conversation_id, **window)

    @rule(user_id=user_ids)
    def erase_user(self, user_id: str) -> None:
        erasure = self.call("erase_user", user_id)
        expected = self.model.erase_user(user_id)
        found = (erasure.conversations, erasure.messages, erasure.traces)
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
