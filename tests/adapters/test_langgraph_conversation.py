"""The conversation beside a thread of LangGraph, and whose everything is that a run stores."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Command

from jazzmine import Message
from jazzmine.adapters.langgraph import JazzmineSaver, JazzmineStore
from jazzmine.core import MessageStore as AsyncMessageStore
from jazzmine.sync import LongTermMemoryStore, MessageStore
from tests.adapters.langgraph_agent import agent as recorded
from tests.adapters.langgraph_graph import SETTINGS, graph


class Said(TypedDict):
    """Messages without LangGraph's reducer, which would give them ids and drop doubles."""

    messages: Annotated[list[Any], operator.add]


@pytest.fixture
def items() -> Iterator[LongTermMemoryStore]:
    with LongTermMemoryStore.initialize("memory:") as opened:
        yield opened


@pytest.fixture
def store() -> Iterator[MessageStore]:
    with MessageStore.initialize("memory:") as opened:
        yield opened


def run_of(user_id: str, thread_id: str = "t1") -> Any:
    return {"configurable": {"thread_id": thread_id, "user_id": user_id}}


def answering(answers: Any, *, state: type = Said) -> StateGraph[Any]:
    built: StateGraph[Any] = StateGraph(state)
    built.add_node("answer", lambda found: {"messages": answers(found["messages"])})
    built.add_edge(START, "answer")
    return built


def said(store: MessageStore, thread_id: str = "t1") -> list[str]:
    found = store.get_messages_by_conversation_id(thread_id)
    return [message.original_content for message in found]


def test_a_user_is_erased_from_threads_items_and_messages(
    items: LongTermMemoryStore, store: MessageStore
) -> None:
    agent = graph(JazzmineSaver(items, messages=store), JazzmineStore(items))
    agent.invoke({"messages": [("user", "A hotel!")]}, SETTINGS)
    agent.invoke(Command(resume="yes"), SETTINGS)
    assert said(store) == ["A hotel!", "You said yes."]
    assert [item.value for item in items.list_items(("langgraph", "store"))] == [{"text": "yes"}]

    assert items.erase_user("ana")
    store.erase_user("ana")

    assert items.list_items() == []
    assert store.get_conversations() == []


def test_a_deleted_thread_leaves_no_conversation(
    items: LongTermMemoryStore, store: MessageStore
) -> None:
    saver = JazzmineSaver(items, messages=store)
    graph(saver, JazzmineStore(items)).invoke({"messages": [("user", "A hotel!")]}, SETTINGS)
    assert said(store) == ["A hotel!"]

    with pytest.raises(ValueError, match="strategy must be 'keep_latest' or 'delete'"):
        saver.prune(["t1"], strategy="oldest")
    saver.delete_thread("t1")

    assert store.get_conversations() == []


async def test_items_and_messages_are_of_one_api(items: LongTermMemoryStore) -> None:
    async with await AsyncMessageStore.initialize("memory:") as messages:
        with pytest.raises(TypeError, match="must be of the same API"):
            JazzmineSaver(items, messages=messages)


@pytest.mark.parametrize("is_nested", [False, True], ids=["root", "subgraph"])
def test_what_a_run_stores_is_its_users_in_a_thread_of_another_one(
    items: LongTermMemoryStore, store: MessageStore, is_nested: bool
) -> None:
    seen = []

    def answer(_: MessagesState, config: RunnableConfig, *, store: BaseStore) -> dict[str, Any]:
        user_id = config["configurable"]["user_id"]
        seen.append(user_id)
        store.put(("facts",), user_id, {"is": "known"})
        return {"messages": [AIMessage(f"Hello {user_id}!")]}

    node: Any = answer
    inner: StateGraph[Any] = StateGraph(MessagesState)
    inner.add_node("answer", node)
    inner.add_edge(START, "answer")
    if is_nested:
        node = inner.compile()
    outer: StateGraph[Any] = StateGraph(MessagesState)
    outer.add_node("answer", node)
    outer.add_edge(START, "answer")
    agent = outer.compile(
        checkpointer=JazzmineSaver(items, messages=store), store=JazzmineStore(items)
    )
    for user_id in ("ann", "bob"):
        agent.invoke({"messages": [("user", f"I am {user_id}")]}, run_of(user_id))

    assert seen == ["ann", "bob"]
    assert [(one.user_id, one.original_content) for one in store.iter_messages("t1")] == [
        ("ann", "I am ann"),
        ("ann", "Hello ann!"),
        ("bob", "I am bob"),
        ("bob", "Hello bob!"),
    ]
    assert agent.get_state(run_of("bob")).config["configurable"]["user_id"] == "bob"
    of_bob = [item for item in items.list_items() if b"bob" in (item.data or b"")]
    assert {item.user_id for item in of_bob} == {"bob"}
    assert [item.key for item in items.list_items(user_id="bob") if "store" in item.namespace] == [
        "bob"
    ]

    assert items.erase_user("bob")
    store.erase_user("bob")

    assert not [item for item in items.list_items() if b"bob" in (item.data or b"")]
    left = [message.content for message in agent.get_state(run_of("ann")).values["messages"]]
    assert left == said(store) == ["I am ann", "Hello ann!"]


def test_a_run_without_a_user_goes_on_as_the_user_of_the_thread(
    items: LongTermMemoryStore,
) -> None:
    agent = answering(lambda _: [AIMessage("Hello!")]).compile(checkpointer=JazzmineSaver(items))
    agent.invoke({"messages": [HumanMessage("Hi!")]}, run_of("ann"))
    agent.invoke({"messages": [HumanMessage("Hi again!")]}, {"configurable": {"thread_id": "t1"}})
    assert {item.user_id for item in items.list_items()} == {"ann"}


def test_a_message_twice_in_one_step_is_one_of_the_conversation(
    items: LongTermMemoryStore, store: MessageStore
) -> None:
    once = AIMessage("Hello!", id="a1")
    agent = answering(lambda _: [once, once]).compile(
        checkpointer=JazzmineSaver(items, messages=store)
    )
    found = agent.invoke({"messages": [HumanMessage("Hi!", id="h1")]}, run_of("ann"))
    assert len(found["messages"]) == 3
    assert said(store) == ["Hi!", "Hello!"]


def test_messages_before_and_after_a_stored_one_are_appended(
    items: LongTermMemoryStore, store: MessageStore
) -> None:
    agent = answering(
        lambda found: [AIMessage("New", id="n1"), found[-1], AIMessage("Newer", id="n2")]
    ).compile(checkpointer=JazzmineSaver(items, messages=store))
    agent.invoke({"messages": [HumanMessage("Hi!", id="h1")]}, run_of("ann"))
    assert said(store) == ["Hi!", "New", "Newer"]


def test_a_message_with_another_content_is_edited_and_keeps_the_rest(
    items: LongTermMemoryStore, store: MessageStore
) -> None:
    saver = JazzmineSaver(items, messages=store)
    agent = answering(lambda _: [AIMessage("Hello Ann!", id="a1")], state=MessagesState).compile(
        checkpointer=saver, interrupt_before=["answer"]
    )
    start = {"messages": [HumanMessage("Hi!", id="h1"), AIMessage("Hello!", id="a1")]}
    agent.invoke(start, run_of("ann"))
    [_, first] = store.get_messages_by_conversation_id("t1")
    store.store_message(first.model_copy(update={"metadata": {"rating": 5}, "is_flagged": True}))

    agent.invoke(None, run_of("ann"))

    [_, edited] = store.get_messages_by_conversation_id("t1")
    assert edited == first.model_copy(
        update={
            "original_content": "Hello Ann!",
            "metadata": {"rating": 5},
            "is_flagged": True,
        }
    )


def test_a_redaction_in_the_state_reaches_title_and_trace(
    items: LongTermMemoryStore, store: MessageStore
) -> None:
    saver = JazzmineSaver(items, messages=store, agent_id="a1")
    guide = recorded(saver)

    guide.invoke({"messages": [HumanMessage("I am Ann. Rain?", id="h1")]}, run_of("u1"))
    conversation = store.get_conversation_by_id("t1")
    assert conversation is not None
    assert conversation.title == "I am Ann. Rain?"
    guide.update_state(run_of("u1"), {"messages": [HumanMessage("I am X. Rain?", id="h1")]})
    assert said(store)[:2] == ["I am X. Rain?", 'weather({"city":"Lisbon"})']

    redacted = store.get_conversation_by_id("t1")
    assert redacted is not None
    assert redacted.title == "I am X. Rain?"
    (trace,) = store.get_turn_traces_by_conversation_id("t1")
    assert [tool.arguments for tool in trace.tool_traces] == [None]


def test_a_tools_answer_that_its_run_redacts_is_not_in_the_trace(
    items: LongTermMemoryStore, store: MessageStore
) -> None:
    saver = JazzmineSaver(items, messages=store, agent_id="a1")
    builder = recorded(saver).builder
    builder.add_node("redact", redact_answers)
    builder.edges.remove(("tools", "model"))
    builder.add_edge("tools", "redact")
    builder.add_edge("redact", "model")
    guide = builder.compile(checkpointer=saver).with_config(callbacks=[saver.recorder()])

    for _ in range(2):
        guide.invoke({"messages": [("user", "Rain?")]}, run_of("u1"))

    assert said(store)[2] == "[redacted]"
    for trace in store.get_turn_traces_by_conversation_id("t1"):
        assert [tool.final_data for tool in trace.tool_traces] == [None]


def redact_answers(state: MessagesState) -> dict[str, Any]:
    answers = [message for message in state["messages"] if message.type == "tool"]
    return {"messages": [answer.model_copy(update={"content": "[redacted]"}) for answer in answers]}


def test_a_trace_is_with_the_answer_of_its_run_if_older_messages_come_with_it(
    items: LongTermMemoryStore, store: MessageStore
) -> None:
    guide = recorded(JazzmineSaver(items, messages=store, agent_id="a1"))
    older = {"messages": [HumanMessage("Sun?"), AIMessage("It shines.")]}
    guide.update_state({"configurable": {"thread_id": "t1"}}, older, as_node="model")
    guide.invoke({"messages": [("user", "Rain?")]}, run_of("u1"), durability="sync")

    assert said(store)[:3] == ["Sun?", "It shines.", "Rain?"]
    (trace,) = store.get_turn_traces_by_conversation_id("t1")
    [*_, call, _, _] = store.get_messages_by_conversation_id("t1")
    assert trace.message_id == call.id


def test_what_no_user_has_typed_is_not_the_users(
    items: LongTermMemoryStore, store: MessageStore
) -> None:
    summary = HumanMessage("They met.", additional_kwargs={"lc_source": "summarization"})
    agent = answering(lambda _: []).compile(checkpointer=JazzmineSaver(items, messages=store))
    agent.invoke({"messages": [summary, "Hi!", ("user", "Hello!")]}, run_of("ann"))

    roles = [message.role.value for message in store.get_messages_by_conversation_id("t1")]
    assert roles == ["system", "user", "user"]
    conversation = store.get_conversation_by_id("t1")
    assert conversation is not None
    assert conversation.title == "Hi!"


def appended(state: list[Any], writes: Any) -> list[Any]:
    return [*state, *(message for write in writes for message in write)]


class Written(TypedDict):
    """Messages of which only those that are new are stored with most checkpoints."""

    messages: Annotated[list[Any], DeltaChannel(appended, snapshot_frequency=3)]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_messages_of_a_delta_channel_are_in_the_conversation(
    items: LongTermMemoryStore, store: MessageStore, durability: Any
) -> None:
    saver = JazzmineSaver(items, messages=store)
    agent = answering(lambda found: [AIMessage(f"Answer {len(found)}")], state=Written).compile(
        checkpointer=saver
    )
    for number in range(5):
        question = {"messages": [("user", f"Question {number}")]}
        agent.invoke(question, run_of("ann"), durability=durability)

    expected = [(f"Question {number}", f"Answer {2 * number + 1}") for number in range(5)]
    assert said(store) == [text for pair in expected for text in pair]
    found = store.get_messages_by_conversation_id("t1")
    assert [message.role.value for message in found[:2]] == ["user", "assistant"]


def test_a_long_conversation_is_in_its_order_and_read_in_parts(
    items: LongTermMemoryStore, store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = answering(lambda found: [AIMessage(f"Answer {len(found)}")], state=MessagesState)
    settings = run_of("ann")
    asked: list[int] = []
    read = store.get_messages_by_ids

    def read_and_count(ids: list[str]) -> list[Message]:
        asked.append(len(ids))
        return read(ids)

    monkeypatch.setattr(store, "get_messages_by_ids", read_and_count)
    for saver in (JazzmineSaver(items, messages=store), JazzmineSaver(items, messages=store)):
        for number in range(30):
            compiled = agent.compile(checkpointer=saver)
            compiled.invoke({"messages": [("user", f"Question {number}")]}, settings)

    found = compiled.get_state(settings).values["messages"]
    assert len(found) == 120
    assert said(store) == [message.content for message in found]
    assert max(asked[1:59]) <= 33
    assert max(asked) == 61  # another saver looks for all of them once
    assert max(asked[-50:]) <= 33


def test_what_could_not_be_stored_is_stored_later(
    items: LongTermMemoryStore,
    store: MessageStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = answering(lambda _: [AIMessage("Hello!", id="a1")]).compile(
        checkpointer=JazzmineSaver(items, messages=store)
    )

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(store, "append_messages", refuse)
        found = agent.invoke({"messages": [HumanMessage("Hi!", id="h1")]}, run_of("ann"))
    assert len(found["messages"]) == 2
    assert "messages of the thread 't1' are missing" in caplog.text
    assert store.get_conversations() == []

    agent.invoke({"messages": [HumanMessage("Again!", id="h2")]}, run_of("ann"))
    assert said(store) == ["Hi!", "Hello!", "Again!"]


def test_two_runs_that_store_one_message_at_once_store_it_once(
    items: LongTermMemoryStore, store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = answering(lambda _: [AIMessage("Hello!", id="a1")]).compile(
        checkpointer=JazzmineSaver(items, messages=store)
    )
    other = answering(lambda _: []).compile(checkpointer=JazzmineSaver(items, messages=store))
    question = {"messages": [HumanMessage("Hi!", id="h1")]}
    read = store.get_messages_by_ids

    def read_and_be_overtaken(ids: list[str]) -> list[Message]:
        found = read(ids)
        monkeypatch.setattr(store, "get_messages_by_ids", read)
        other.invoke(question, run_of("ann"))
        return found

    monkeypatch.setattr(store, "get_messages_by_ids", read_and_be_overtaken)
    agent.invoke(question, run_of("ann"))
    assert said(store) == ["Hi!", "Hello!"]


def test_threads_whose_names_have_slashes_have_messages_of_their_own(
    items: LongTermMemoryStore, store: MessageStore
) -> None:
    agent = answering(lambda _: []).compile(checkpointer=JazzmineSaver(items, messages=store))
    for thread_id, own_id in (("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c")):
        agent.invoke({"messages": [HumanMessage("Hi!", id=own_id)]}, run_of("ann", thread_id))
        assert said(store, thread_id) == ["Hi!"]
