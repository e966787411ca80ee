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
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from pydantic import ValidationError

from jazzmine import (
    ConflictError,
    Conversation,
    IntegrityError,
    Message,
    NotFoundError,
    TraceFilter,
    TurnTrace,
)
from tests.behaviour.draws import (
    CONVERSATIONS,
    MESSAGES,
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
    trace_ids,
    traces,
)
from tests.behaviour.log_rules import LogRules
from tests.behaviour.model import Model
from tests.faults.sizes import SOAK, size

SETTINGS = settings(
    max_examples=size(20, 150),
    stateful_step_count=size(30, 80),
    derandomize=not SOAK,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)

EXPECTED_ERRORS = (ConflictError, IntegrityError, NotFoundError, ValidationError, ValueError)
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

    There are two stores on the same data, and each call is made to one of them.
    """

    open_store: ClassVar[Callable[[], Any]]
    runner: ClassVar[Runner]

    def __init__(self) -> None:
        super().__init__()
        self.stores = [self.opened(), self.opened()]
        self.model = Model()
        self.steps = 0
        self.last_write: tuple[str, tuple[Any, ...], dict[str, Any]] | None = None

    def teardown(self) -> None:
        try:
            self.compare_everything()
        finally:
            # The next sequence begins with an empty store.
            for conversation_id in CONVERSATIONS:
                self.call("delete_conversation", conversation_id)
            for store in self.stores:
                self.runner.run(store.close())

    # How calls are made and compared

    def opened(self) -> Any:
        return self.runner.run(type(self).open_store())

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self.runner.run(getattr(self.stores[0], name)(*args, **kwargs))

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
        if found in EXPECTED_ERRORS:
            self.compare_everything()
        else:
            self.last_write = (name, args, kwargs)

    def compare_everything(self) -> None:
        """Compare all stored records, with few calls, because this is done often."""
        for user_id in USERS:
            self.read("get_conversations_by_user_id", user_id)
        for conversation_id in CONVERSATIONS:
            self.read("get_messages_by_conversation_id", conversation_id)
            self.read("get_immediate_context", conversation_id, 2)
            self.read("get_turn_traces_by_conversation_id", conversation_id)
        for trace_id in TRACES:
            self.read("get_turn_trace_by_id", trace_id)
        self.read("find_turn_traces", TraceFilter(), limit=10)
        self.read("summarize_usage", TraceFilter(), by="agent")

    @invariant()
    def now_and_then_everything_is_as_the_model_says(self) -> None:
        self.steps += 1
        if self.steps % 5 == 0:
            self.compare_everything()
        if self.steps % 3 == 0:
            self.stores.reverse()

    # Writes

    @initialize(first=conversations, several=st.lists(messages, max_size=4))
    def begin(self, first: Conversation, several: list[Message]) -> None:
        self.write("store_conversation", first)
        for message in several:
            self.write("store_message", message.model_copy(update={"conversation_id": first.id}))

    @rule(conversation=conversations, update=st.booleans())
    def store_conversation(self, conversation: Conversation, update: bool) -> None:
        self.write("update_conversation" if update else "store_conversation", conversation)

    @rule(message=messages, update=st.booleans())
    def store_message(self, message: Message, update: bool) -> None:
        self.write("update_message" if update else "store_message", message)

    @rule(several=st.lists(messages, max_size=4, unique_by=lambda message: message.id))
    def store_messages(self, several: list[Message]) -> None:
        self.write("store_messages", several)

    @rule(message=messages, between=messages, text=st.sampled_from(["later", "last"]))
    def store_two_messages_with_one_id(self, message: Message, between: Message, text: str) -> None:
        later = message.model_copy(update={"original_content": text, "timestamp": 1})
        several = [message, between, later] if between.id != message.id else [message, later]
        self.write("store_messages", several)

    @rule(trace=traces, strays=st.just(False) | st.just(False) | st.booleans())
    def store_turn_trace(self, trace: TurnTrace, strays: bool) -> None:
        message = self.model.get_message_by_id(trace.message_id)
        if message is not None and not strays:
            moved = {"conversation_id": message.conversation_id, "id": f"t{message.id[1:]}"}
            trace = trace.model_copy(update=moved)
        self.write("store_turn_trace", trace)

    @rule(
        conversation=st.none() | conversations,
        several=st.lists(messages, max_size=3, unique_by=lambda message: message.id),
        trace=st.none() | traces,
    )
    def store_turn(
        self, conversation: Conversation | None, several: list[Message], trace: TurnTrace | None
    ) -> None:
        self.write("store_turn", conversation=conversation, messages=several, trace=trace)

    @rule(message_id=message_ids, flagged=st.booleans())
    def flag_message(self, message_id: str, flagged: bool) -> None:
        self.write("flag_message", message_id, flagged)

    @rule(message_id=message_ids)
    def delete_message(self, message_id: str) -> None:
        self.write("delete_message", message_id)

    @rule(message_id=message_ids, swap=st.booleans())
    def delete_a_message_and_store_it_again(self, message_id: str, swap: bool) -> None:
        message = self.read("get_message_by_id", message_id)
        if message is not None:
            self.write("delete_message", message_id)
            self.write("store_message", message)
        if swap:
            self.stores.reverse()

    @rule(conversation_id=conversation_ids)
    def delete_conversation(self, conversation_id: str) -> None:
        self.write("delete_conversation", conversation_id)

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
        turn: dict[str, Any] = {"c": conversation, "m": message, "t": trace}
        turn[wrong] = turn[wrong].model_copy(update=WRONG[type(turn[wrong])])
        self.write("store_turn", conversation=turn["c"], messages=[turn["m"]], trace=turn["t"])

    # Reads

    @rule(listing=listings, limit=limits, after=st.none() | st.integers(0, 4))
    def read_a_page(self, listing: tuple[str, str], limit: int | None, after: int | None) -> None:
        pool = CONVERSATIONS if listing[0].startswith("get_conversations") else MESSAGES
        last_id = None if after is None else pool[after % len(pool)]
        self.read(*listing, limit=limit, after=last_id)

    @rule(listing=listings, size=st.integers(1, 3))
    def read_page_by_page(self, listing: tuple[str, str], size: int) -> None:
        page = self.read(*listing, limit=size)
        while page:
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
        store = self.stores[0]
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
        self.read("get_messages_by_ids", wanted)
        for message_id in wanted:
            self.read("get_message_by_id", message_id)
            self.read("get_turn_trace_by_message_id", message_id)

    @rule(where=filters, limit=st.sampled_from([1, 2, 100]), after=st.none() | trace_ids)
    def find_traces(self, where: TraceFilter, limit: int, after: str | None) -> None:
        self.read("find_turn_traces", where, limit=limit, after=after)

    @rule(
        where=filters,
        by=st.sampled_from(["agent", "user", "conversation", "intent", "model", "day"]),
    )
    def sum_up_usage(self, where: TraceFilter, by: str) -> None:
        found = self.read("summarize_usage", where, by=by)
        assert repr(found) == repr(self.model.summarize_usage(where, by=by))  # of the same types

    # The stores themselves

    @rule()
    def go_on_with_the_other_store(self) -> None:
        self.stores.reverse()

    @rule()
    def close_the_store_and_open_it_again(self) -> None:
        self.call("close")
        self.stores[0] = self.opened()


def machine(open_store: Callable[[], Any], runner: Runner) -> type[StoreMachine]:
    """Return the state machine of a store.

    Args:
        open_store: opens a store; all its stores have the same data.
        runner: makes the calls.
    """
    members = {"open_store": staticmethod(open_store), "runner": runner}
    return type("Machine", (StoreMachine,), members)
