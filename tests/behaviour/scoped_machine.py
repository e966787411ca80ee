"""Random calls to stores that are scoped to users, each compared with a model that filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from jazzmine import ConflictError, Conversation, IntegrityError, NotFoundError, ScopeError
from tests.behaviour.draws import (
    CONVERSATIONS,
    conversation_ids,
    conversations,
    listings,
    message_ids,
    user_ids,
)
from tests.behaviour.scoped_model import ScopedModel
from tests.behaviour.state_machine import EXPECTED_ERRORS, StoreMachine


class ScopedMachine(StoreMachine):
    """Makes each call to a store that is scoped to one of two users, or to none."""

    def __init__(self) -> None:
        super().__init__()
        self.viewer: str | None = None

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        store = self.stores[0]
        if self.viewer is not None and name != "close":
            store = store.scoped(user_id=self.viewer)
        return self.runner.run(getattr(store, name)(*args, **kwargs))

    def outcome(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except (*EXPECTED_ERRORS, ScopeError) as error:
            return type(error)

    def compare_everything(self) -> None:
        viewer, last_write = self.viewer, self.last_write
        self.look(None)
        super().compare_everything()
        self.look(viewer)
        self.last_write = last_write

    def teardown(self) -> None:
        self.look(None)
        super().teardown()

    @rule(viewer=st.none() | user_ids)
    def look(self, viewer: str | None) -> None:
        self.viewer, self.last_write = viewer, None
        self.model = self.whole if viewer is None else ScopedModel(self.whole, viewer)  # type: ignore[assignment]

    def write(self, name: str, *args: Any, **kwargs: Any) -> None:
        found = self.read(name, *args, **kwargs)
        if isinstance(found, type):
            self.compare_everything()
        else:
            self.last_write = (name, args, kwargs)

    @rule(listing=listings, size=st.integers(1, 3))
    def read_page_by_page(self, listing: tuple[str, str], size: int) -> None:
        page = self.read(*listing, limit=size)
        while page and page is not ScopeError:
            page = self.read(*listing, limit=size, after=page[-1].id)

    @rule(viewer=user_ids)
    def list_what_a_viewer_has_said(self, viewer: str) -> None:
        self.look(viewer)
        self.read("get_messages_by_user_id", viewer)

    @rule(conversation_id=conversation_ids, size=st.integers(1, 3))
    def iterate(self, conversation_id: str, size: int) -> None:
        expected = self.model.iter_messages(conversation_id, batch_size=size)
        store = self.stores[0]
        if self.viewer is not None:
            store = store.scoped(user_id=self.viewer)
        found = self.runner.collect(lambda: store.iter_messages(conversation_id, batch_size=size))
        assert found == expected

    def erase_user(self, user_id: str) -> None:
        expected = self.outcome(self.model.erase_user, user_id)
        found = self.outcome(self.call, "erase_user", user_id)
        if found is not ScopeError:
            found = (found.conversations, found.messages, found.traces)
        assert found == expected
        self.last_write = None

    @rule(
        conversation_id=conversation_ids,
        copy=conversations,
        until=st.none() | message_ids,
    )
    def fork_conversation(
        self, conversation_id: str, copy: Conversation, until: str | None
    ) -> None:
        conversation_id = self.stored_conversation(conversation_id)
        until = until and self.message_within(conversation_id, until)
        free = [c for c in CONVERSATIONS if c not in self.whole.conversations]
        if free and copy.title:
            copy = copy.model_copy(update={"id": free[0]})
        is_strangers = self.viewer not in (None, copy.user_id)
        there = self.whole.get_conversation_by_id(copy.id)
        found = self.outcome(self.call, "fork_conversation", conversation_id, copy, until=until)
        if is_strangers:
            assert found is ScopeError
        elif found in (NotFoundError, ConflictError, IntegrityError):
            if found is ConflictError:
                assert self.model.get_conversation_by_id(copy.id) is not None
            if found is IntegrityError:
                assert there
                assert there.user_id != self.viewer
        else:
            assert there is None
            everything = [m.id for m in self.model.get_messages_by_conversation_id(conversation_id)]
            assert list(found) == (
                everything[: everything.index(until) + 1] if until else everything
            )
            traces = self.call("get_turn_traces_by_conversation_id", copy.id)
            trace_ids = {one.message_id: one.id for one in traces}
            chosen = {old: (new, trace_ids.get(new)) for old, new in found.items()}
            self.whole.fork_conversation(conversation_id, chosen, copy)
        self.last_write = None
