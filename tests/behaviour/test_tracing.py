"""Each call of a public method is one span of OpenTelemetry, which quotes no content."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from jazzmine import IntegrityError, NotFoundError, TraceFilter
from jazzmine.core.message_store import MessageStore
from jazzmine.core.working_memory import WorkingMemory, WorkingMemoryStore
from tests.behaviour.apis import Api
from tests.behaviour.backends import Backend, Config
from tests.behaviour.calls import CALLS, ITERATION
from tests.behaviour.memory_samples import UPDATES, busy
from tests.behaviour.samples import conversation, full_message, full_trace, messages
from tests.spans import Recorder, recorded

SYSTEMS = {
    "json": "jazzmine.json",
    "memory": "jazzmine.memory",
    "mongodb": "mongodb",
    "pgbouncer": "postgresql",
    "postgres": "postgresql",
    "redis": "redis",
    "sqlite": "sqlite",
}
MARK = "open sesame"


@pytest.fixture
def spans() -> Iterator[Recorder]:
    with recorded() as recorder:
        yield recorder


def public_methods(store_class: type) -> set[str]:
    return {
        name
        for name in dir(store_class)
        if callable(getattr(store_class, name)) and not name.startswith("_")
    } - {"memory_type", "open", "require_open", "scoped"}


def told(recorder: Recorder, backend: Backend) -> tuple[str, set[str]]:
    """Return the name and the attributes' names of the only span, which quotes nothing."""
    (span,) = recorder.take()
    attributes = dict(span.attributes or {})
    assert span.kind is SpanKind.INTERNAL
    assert span.events == ()
    assert span.status.status_code is StatusCode.UNSET
    assert attributes.pop("db.system.name") == SYSTEMS[backend.name.partition("-")[0]]
    assert attributes.pop("gen_ai.conversation.id", "c1") == "c1"
    assert {type(value) for value in attributes.values()} <= {int}
    return span.name, {name for name in span.attributes or {} if name != "db.system.name"}


async def renew(store: MessageStore) -> None:
    await store.erase_user("u1")
    await store.store_turn(
        conversation=conversation(title=MARK),
        messages=[full_message(text=MARK)],
        trace=full_trace(text=MARK),
    )


async def test_each_call_of_a_message_store_is_one_span(
    api: Api, config: Config, store: MessageStore, backend: Backend, spans: Recorder
) -> None:
    async with await api.MessageStore.initialize(config):
        assert told(spans, backend) == ("jazzmine.initialize", set())
    assert told(spans, backend) == ("jazzmine.close", set())
    found = {}
    for name, call in CALLS.items():
        await renew(store)
        spans.take()
        await call(store)
        found[name] = told(spans, backend)[0]
    await renew(store)
    spans.take()
    assert [item.original_content async for item in store.iter_messages("c1")] == [MARK]
    found[ITERATION] = told(spans, backend)[0]

    assert found == {name: f"jazzmine.{name}" for name in found}
    assert {*found, "initialize", "close"} == public_methods(MessageStore)


async def test_each_call_of_a_working_memory_is_one_span(
    memory_store: WorkingMemoryStore, memory_backend: Backend, spans: Recorder
) -> None:
    calls: dict[str, tuple[Any, ...]] = {
        "active_count": (),
        "delete": ("c1",),
        "erase_user": ("user",),
        "move_user": ("user", "other"),
        "get": ("c1",),
        "get_or_create": ("c1", "user", "agent"),
        "forget_entity": ("c1", "tea"),
        "ping": (),
        "resume_flow": ("c1",),
        "restore": ("c1", busy("c1")),
        "save": (busy("c1"),),
        "set_data": ("c1",),
        "update": ("c1", lambda memory: None),
        **{update.name: ("c1", *update.arguments()) for update in UPDATES},
    }
    found = {}
    for name, arguments in calls.items():
        await memory_store.delete("c1")
        if name != "save":
            await memory_store.save(busy("c1"))
        spans.take()
        await getattr(memory_store, name)(*arguments)
        found[name] = told(spans, memory_backend)[0]
    await memory_store.get_or_create("c1", "user", "agent")
    spans.take()
    async with memory_store.locked("c1") as memory:
        assert isinstance(memory, WorkingMemory)
    found["locked"] = told(spans, memory_backend)[0]

    assert found == {name: f"jazzmine.{name}" for name in found}
    assert {*found, "initialize", "close"} == public_methods(WorkingMemoryStore)


async def test_a_span_says_how_many_records_were_stored_returned_or_deleted(
    chat: MessageStore, spans: Recorder
) -> None:
    calls: list[tuple[Any, dict[str, int]]] = [
        (
            lambda: chat.store_turn(conversation=conversation(), messages=messages("m1", "m2")),
            {"conversations": 1, "messages": 2},
        ),
        (lambda: chat.store_turn_trace(full_trace()), {"traces": 1}),
        (lambda: chat.append_messages("c1", messages("m3", "m4", "m5")), {"messages": 3}),
        (lambda: chat.get_immediate_context("c1", 2), {"messages": 2}),
        (lambda: chat.get_message_by_id("m1"), {"messages": 1}),
        (lambda: chat.get_message_by_id("nowhere"), {"messages": 0}),
        (lambda: chat.get_conversations_by_user_id("u1"), {"conversations": 1}),
        (lambda: chat.find_turn_traces(TraceFilter()), {"traces": 1}),
        (lambda: chat.rewind_conversation("c1", after="m1"), {"messages": 4}),
        (lambda: chat.erase_user("u1"), {"conversations": 1, "messages": 1}),
    ]
    spans.take()
    for call, counts in calls:
        await call()
        told = spans.attributes()
        assert {name: told[f"jazzmine.{name}"] for name in counts} == counts


async def test_a_span_says_the_class_of_an_error_and_not_its_text(
    chat: MessageStore, spans: Recorder
) -> None:
    spans.take()
    with pytest.raises(IntegrityError):
        await chat.store_message(full_message(text=MARK, conversation_id="nowhere"))
    (span,) = spans.take()

    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is None
    assert span.events == ()
    assert (span.attributes or {})["error.type"] == "jazzmine.errors.IntegrityError"
    assert MARK not in span.to_json()


@pytest.mark.parametrize("value", [None, 5, {"$ne": MARK}, [MARK], "\ud800"], ids=repr)
async def test_a_refused_value_is_not_told(chat: MessageStore, spans: Recorder, value: Any) -> None:
    spans.take()
    with pytest.raises((TypeError, ValueError)):
        await chat.get_immediate_context(value, 1)
    assert {*spans.attributes()} == {"db.system.name", "error.type"}
    for wrong in (value, [value]):
        with pytest.raises((TypeError, ValueError)):
            await chat.append_messages("c1", wrong)
        assert MARK not in str(spans.attributes())


@pytest.mark.smoke
async def test_a_span_contains_those_of_a_locked_block(
    memory_store: WorkingMemoryStore, spans: Recorder
) -> None:
    await memory_store.get_or_create("c1", "user", "agent")
    spans.take()
    async with memory_store.locked("c1"):
        with spans.tracer.start_as_current_span("model"):
            await memory_store.get("c1")
    get, model, locked = spans.take()

    assert [span.name for span in (get, model, locked)] == [
        "jazzmine.get",
        "model",
        "jazzmine.locked",
    ]
    assert get.parent == model.context
    assert model.parent == locked.context
    assert locked.parent is None


async def test_the_span_of_a_block_that_raises_says_the_class_of_its_error(
    memory_store: WorkingMemoryStore, spans: Recorder
) -> None:
    with pytest.raises(NotFoundError):
        async with memory_store.locked("c1"):
            raise AssertionError("the block was entered")
    absent = spans.attributes()
    await memory_store.get_or_create("c1", "user", "agent")
    spans.take()
    with pytest.raises(KeyError):
        async with memory_store.locked("c1"):
            raise KeyError(MARK)

    assert absent["error.type"] == "jazzmine.errors.NotFoundError"
    assert spans.attributes()["error.type"] == "KeyError"


async def test_an_iteration_is_a_span_for_each_batch_without_the_code_of_its_caller(
    chat: MessageStore, spans: Recorder
) -> None:
    await chat.store_messages(messages("m1", "m2", "m3"))
    spans.take()
    async for _ in chat.iter_messages("c1", batch_size=2):
        spans.tracer.start_span("caller").end()
    found = spans.take()

    assert [span.parent for span in found] == [None] * 5
    batches = [span for span in found if span.name == "jazzmine.iter_messages"]
    assert [(span.attributes or {})["jazzmine.messages"] for span in batches] == [2, 1]
