"""Random calls to a store, one after another, each compared with the model.

`scripts/test` makes the same calls in every run; `scripts/soak` makes more, longer and other
sequences in each run, and prints how to repeat one that failed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Protocol

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pydantic import ValidationError

from jazzmine import (
    ConflictError,
    Conversation,
    IntegrityError,
    Message,
    NotFoundError,
    ScopeError,
    TraceFilter,
    TurnTrace,
)
from tests.behaviour.draws import (
    CONVERSATIONS,
    LOST,
    TRACES,
    USERS,
    agent_ids,
    conversation_ids,
    conversations,
    counts,
    filters,
    limits,
    listings,
    message_ids,
    messages,
    strays,
    traces,
    user_ids,
)
from tests.behaviour.log_rules import LogRules
from tests.behaviour.model import Model
from tests.behaviour.scoped_model import ScopedModel
from tests.faults.sizes import SOAK, size

SETTINGS = settings(
    max_examples=size(20, 150),
    stateful_step_count=size(30, 80),
    derandomize=not SOAK,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)

EXPECTED_ERRORS = (
    ConflictError,
    IntegrityError,
    NotFoundError,
    ScopeError,
    ValidationError,
    ValueError,
)
# No back end can store these values, so every store must refuse them.
WRONG: dict[type, dict[str, Any]] = {
    Conversation: {"title": "\ud800"},
    Message: {"metadata": {"a": float("nan")}},
    TurnTrace: {"detected_entities": [1]},
}


class Runner(Protocol):
    """Makes the calls of one of the two APIs."""

    def run(self, call: Any) -> Any: ...

    def collect(self, iterate: Callable[[], Any]) -> list[Any]: ...


class StoreMachine(LogRules, RuleBasedStateMachine):
    """Makes each call to the store and to the model, and compares the results.

    There are two stores on the same data, and each call is made to one of them, or to a view of it
    for one of two users.
    """

    open_store: ClassVar[Callable[[], Any]]
    runner: ClassVar[Runner]
    remembers: ClassVar[bool] = False
    has_views: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.stores = [self.opened(), self.opened()]
        self.model = self.whole = Model()
        self.viewer: str | None = None
        self.steps = 0
        self.last_write: tuple[str, tuple[Any, ...], dict[str, Any]] | None = None

    def teardown(self) -> None:
        self.see_as(None)
        try:
            self.compare_everything()
        finally:
            # The next sequence begins with an empty store.
            for conversation_id in CONVERSATIONS:
                self.call("delete_conversation", conversation_id)
            for store in self.stores:
                self.runner.run(store.close())

    def forget_deleted(self) -> None:
        """Open the other store again if it remembers conversations that this one has deleted."""
        if self.remembers:
            self.runner.run(self.stores[1].close())
            self.stores[1] = self.opened()

    # Of the drawn ids few are stored, or fit together

    def stored_conversation(self, drawn: str) -> str:
        """Return the id of a stored conversation."""
        return _stored(self.whole.conversations, drawn)

    def stored_message(self, drawn: str) -> str:
        """Return the id of a stored message."""
        return _stored(self.whole.messages, drawn)

    def fitting(self, message: Message, strays: bool = False) -> Message:
        """Return a message in the conversation of the same one, or in one that is stored."""
        same = self.whole.messages.get(message.id)
        owner = self.stored_conversation(message.conversation_id)
        moved = {"conversation_id": same.conversation_id if same else owner}
        return message if strays else message.model_copy(update=moved)

    def of_message(self, trace: TurnTrace, strays: bool = False) -> TurnTrace:
        """Return a trace of a stored message; with the id of any message's trace if it strays."""
        message = self.whole.messages.get(self.stored_message(trace.message_id))
        if message is None:
            return trace
        moved = {"message_id": message.id, "conversation_id": message.conversation_id}
        if not strays:
            moved["id"] = f"t{message.id[1:]}"
        elif self.whole.traces:
            moved["id"] = _stored(self.whole.traces, trace.id)
        return trace.model_copy(update=moved)

    # How calls are made and compared

    def opened(self) -> Any:
        return self.runner.run(type(self).open_store())

    def see_as(self, viewer: str | None) -> None:
        self.viewer, self.last_write = viewer, None
        self.model = self.whole if viewer is None else ScopedModel(self.whole, viewer)  # type: ignore[assignment]

    @property
    def store(self) -> Any:
        return self.stores[0].scoped(user_id=self.viewer) if self.viewer else self.stores[0]

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self.runner.run(getattr(self.store, name)(*args, **kwargs))

    def outcome(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except EXPECTED_ERRORS as error:
            return type(error)

    def read(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Make a call to both, compare the results, and return them."""
        expected = self.outcome(getattr(self.model, name), *args, **kwargs)
        found = self.outcome(self.call, name, *args, **kwargs)
        assert found == expected, f"{name} returned {found!r}, not {expected!r}"
        return found

    def write(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Make a call to both, and compare the results; after an error, compare all records."""
        found = self.read(name, *args, **kwargs)
        if isinstance(found, type):
            self.compare_everything()
        else:
            self.last_write = (name, args, kwargs)

    def compare_everything(self) -> None:
        """Compare all stored records, with few calls, because this is done often."""
        viewer, last_write = self.viewer, self.last_write
        self.see_as(None)
        for user_id in USERS:
            self.read("get_conversations_by_user_id", user_id)
        for conversation_id in CONVERSATIONS:
            self.read("get_messages_by_conversation_id", conversation_id)
            self.read("get_immediate_context", conversation_id, 2)
            self.read("get_turn_traces_by_conversation_id", conversation_id)
        for number in (self.steps, self.steps + 3, self.steps + 6):
            self.read("get_turn_trace_by_id", TRACES[number % len(TRACES)])
        self.read("find_turn_traces", TraceFilter(), limit=10)
        self.read("summarize_usage", TraceFilter(), by="agent")
        self.see_as(viewer)
        self.last_write = last_write

    @invariant()
    def now_and_then_everything_is_as_the_model_says(self) -> None:
        self.steps += 1
        if self.steps % 5 == 0:
            self.compare_everything()
        if self.steps % 3 == 0:
            self.stores.reverse()

    # Writes

    @initialize(
        several=st.lists(conversations, min_size=1, max_size=3),
        said=st.lists(messages, min_size=2, max_size=4),
        traced=st.lists(traces, min_size=1, max_size=3),
    )
    def begin(
        self, several: list[Conversation], said: list[Message], traced: list[TurnTrace]
    ) -> None:
        for conversation in several:
            self.write("store_conversation", conversation)
        for message in said:
            self.write("store_message", self.fitting(message))
        for trace in traced:
            self.write("store_turn_trace", self.of_message(trace))

    @rule(conversation=conversations, update=st.booleans())
    def store_conversation(self, conversation: Conversation, update: bool) -> None:
        self.write("update_conversation" if update else "store_conversation", conversation)

    @rule(message=messages, strays=strays, update=st.booleans())
    def store_message(self, message: Message, strays: bool, update: bool) -> None:
        fitting = self.fitting(message, strays)
        self.write("update_message" if update else "store_message", fitting)

    @rule(
        several=st.lists(messages, max_size=4, unique_by=lambda message: message.id), strays=strays
    )
    def store_messages(self, several: list[Message], strays: bool) -> None:
        self.write("store_messages", [self.fitting(message, strays) for message in several])

    @rule(message=messages, between=messages, text=st.sampled_from(["later", "last"]))
    def store_two_messages_with_one_id(self, message: Message, between: Message, text: str) -> None:
        message, between = self.fitting(message), self.fitting(between)
        later = message.model_copy(update={"original_content": text, "timestamp": 1})
        several = [message, between, later] if between.id != message.id else [message, later]
        self.write("store_messages", several)

    @rule(trace=traces, strays=st.booleans())
    def store_turn_trace(self, trace: TurnTrace, strays: bool) -> None:
        self.write("store_turn_trace", self.of_message(trace, strays))

    @rule(
        conversation=st.none() | conversations,
        several=st.lists(messages, max_size=3, unique_by=lambda message: message.id),
        trace=st.none() | traces,
        strays=strays,
    )
    def store_turn(
        self,
        conversation: Conversation | None,
        several: list[Message],
        trace: TurnTrace | None,
        strays: bool,
    ) -> None:
        several = [self.fitting(message, strays) for message in several]
        if trace is not None:
            trace = self.of_message(trace, strays)
        self.write("store_turn", conversation=conversation, messages=several, trace=trace)

    @rule(message_id=message_ids, flagged=st.booleans())
    def flag_message(self, message_id: str, flagged: bool) -> None:
        self.write("flag_message", self.stored_message(message_id), flagged)

    @rule(message_id=message_ids)
    def delete_message(self, message_id: str) -> None:
        self.write("delete_message", self.stored_message(message_id))

    @rule(message_id=message_ids, swap=st.booleans())
    def delete_a_message_and_store_it_again(self, message_id: str, swap: bool) -> None:
        message = self.read("get_message_by_id", self.stored_message(message_id))
        if message is not None:
            self.write("delete_message", message.id)
            self.write("store_message", message)
        if swap:
            self.stores.reverse()

    @precondition(lambda self: self.last_write is not None)
    @rule()
    def repeat_the_last_write(self) -> None:
        assert self.last_write is not None
        name, args, kwargs = self.last_write
        self.call(name, *args, **kwargs)
        self.compare_everything()

    @rule(conversation=conversations, message=messages, trace=traces, wrong=st.sampled_from("cmt"))
    def store_a_turn_that_is_partly_wrong(
        self, conversation: Conversation, message: Message, trace: TurnTrace, wrong: str
    ) -> None:
        fitting = self.fitting(message)
        turn: dict[str, Any] = {"c": conversation, "m": fitting, "t": self.of_message(trace)}
        turn[wrong] = turn[wrong].model_copy(update=WRONG[type(turn[wrong])])
        self.write("store_turn", conversation=turn["c"], messages=[turn["m"]], trace=turn["t"])

    # Reads

    @rule(listing=listings, limit=limits, after=st.none() | st.integers(0, 4))
    def read_a_page(self, listing: tuple[str, str], limit: int | None, after: int | None) -> None:
        whole: Any = self.whole.messages
        if listing[0].startswith("get_conversations"):
            whole = self.whole.conversations
        pool = [*whole, LOST]
        last_id = None if after is None else pool[after % len(pool)]
        self.read(*listing, limit=limit, after=last_id)

    @rule(listing=listings, size=st.integers(1, 3))
    def read_page_by_page(self, listing: tuple[str, str], size: int) -> None:
        page = self.read(*listing, limit=size)
        while page and page is not ScopeError:
            page = self.read(*listing, limit=size, after=page[-1].id)

    @rule(conversation_id=conversation_ids, size=st.integers(1, 3))
    def read_page_by_page_from_the_end(self, conversation_id: str, size: int) -> None:
        newest_first = partial(
            self.read, "get_messages_by_conversation_id", conversation_id, order="newest"
        )
        page = newest_first(limit=size)
        while page:
            page = newest_first(limit=size, after=page[-1].id)

    @rule(conversation_id=conversation_ids, size=st.integers(1, 3))
    def iterate(self, conversation_id: str, size: int) -> None:
        expected = self.model.iter_messages(conversation_id, batch_size=size)
        store = self.store
        found = self.runner.collect(lambda: store.iter_messages(conversation_id, batch_size=size))
        assert found == expected, f"iter_messages yielded {found!r}, not {expected!r}"

    @rule(
        conversation_id=conversation_ids,
        agent_id=agent_ids,
        wanted=st.lists(message_ids, max_size=4),
        count=counts,
        offset=counts,
    )
    def read_what_is_not_paged(
        self, conversation_id: str, agent_id: str, wanted: list[str], count: int, offset: int
    ) -> None:
        self.read("get_conversation_by_id", conversation_id)
        self.read("get_immediate_context", conversation_id, count)
        self.read("get_turn_traces_by_agent_id", agent_id, count, offset)
        wanted = [self.stored_message(message_id) for message_id in wanted]
        self.read("get_messages_by_ids", wanted)
        for message_id in wanted:
            self.read("get_message_by_id", message_id)
            self.read("get_turn_trace_by_message_id", message_id)

    @rule(where=filters, limit=st.sampled_from([1, 2, 100]), after=st.none() | st.integers(0, 8))
    def find_traces(self, where: TraceFilter, limit: int, after: Any) -> None:
        if after is not None:
            after = [*self.whole.traces, LOST][after % (len(self.whole.traces) + 1)]
        self.read("find_turn_traces", where, limit=limit, after=after)

    @rule(
        where=filters,
        by=st.sampled_from(["agent", "user", "conversation", "intent", "model", "day"]),
    )
    def sum_up_usage(self, where: TraceFilter, by: str) -> None:
        found = self.read("summarize_usage", where, by=by)
        assert repr(found) == repr(self.model.summarize_usage(where, by=by))  # of the same types

    # The stores themselves, and views of them

    @precondition(lambda self: self.has_views)
    @rule(viewer=st.none() | user_ids)
    def look(self, viewer: str | None) -> None:
        self.see_as(viewer)

    @precondition(lambda self: self.has_views)
    @rule(viewer=user_ids)
    def list_what_a_viewer_has_said(self, viewer: str) -> None:
        self.see_as(viewer)
        self.read("get_messages_by_user_id", viewer)

    @rule(is_closed=st.sampled_from([False] * 4 + [True]))
    def go_on_with_the_other_store(self, is_closed: bool) -> None:
        if is_closed:
            self.runner.run(self.stores[0].close())
            self.stores[0] = self.opened()
        self.stores.reverse()


def _stored(records: dict[str, Any], drawn: str) -> str:
    is_needed = drawn != LOST and records
    return list(records)[int(drawn[1:]) % len(records)] if is_needed else drawn


def machine(
    open_store: Callable[[], Any],
    runner: Runner,
    *,
    remembers: bool = False,
    has_views: bool = False,
) -> type[StoreMachine]:
    """Return the state machine of a store.

    Args:
        open_store: opens a store; all its stores have the same data.
        runner: makes the calls.
        remembers: whether a store goes on storing messages in a conversation that it knows if
            another process deletes that conversation, as `docs/backends/mongodb.md` says.
        has_views: whether some calls are made to the view of a user.
    """
    members = {"open_store": staticmethod(open_store), "runner": runner}
    members |= {"remembers": remembers, "has_views": has_views}
    return type("Machine", (StoreMachine,), members)
