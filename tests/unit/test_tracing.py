"""When calls are traced."""

from __future__ import annotations

import asyncio
from contextvars import copy_context

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from jazzmine.core import working_memory as core
from jazzmine.sync import working_memory as sync
from tests.spans import recorded


def test_a_provider_that_is_set_after_the_first_call_gets_the_next_ones() -> None:
    with sync.WorkingMemoryStore.initialize() as store:
        store.ping()
        with recorded() as spans:
            store.ping()
            assert [span.name for span in spans.take()] == ["jazzmine.ping"]
        store.ping()
        assert spans.take() == []


def test_a_tracer_has_the_name_and_the_version_of_the_library() -> None:
    with sync.WorkingMemoryStore.initialize() as store, recorded() as spans:
        store.ping()
        (span,) = spans.take()

    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "jazzmine.working_memory"
    assert span.instrumentation_scope.version


def test_what_is_below_a_span_that_is_not_sampled_is_not_sampled() -> None:
    with sync.WorkingMemoryStore.initialize() as store, recorded(ALWAYS_OFF) as spans:
        store.get_or_create("c", "user", "agent")
        with store.locked("c"):
            within = trace.get_current_span().get_span_context()

    assert spans.take() == []
    assert within.is_valid
    assert not within.trace_flags.sampled


async def test_the_span_of_a_cancelled_call_ends_with_an_error() -> None:
    async with await core.WorkingMemoryStore.initialize() as store:
        await store.get_or_create("c", "user", "agent")
        with recorded() as spans:
            async with store.locked("c"):
                waiting = asyncio.ensure_future(store.cancel_flow("c"))
                await asyncio.sleep(0.01)
                waiting.cancel()
                await asyncio.wait([waiting])
            cancelled, _ = spans.take()

    assert cancelled.name == "jazzmine.cancel_flow"
    assert cancelled.status.status_code is StatusCode.ERROR
    assert (cancelled.attributes or {})["error.type"] == "asyncio.exceptions.CancelledError"


def test_a_block_may_end_in_another_context_than_it_began_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with sync.WorkingMemoryStore.initialize() as store, recorded() as spans:
        store.get_or_create("c", "user", "agent")
        spans.take()
        block = store.locked("c")
        copy_context().run(block.__enter__)
        copy_context().run(block.__exit__, None, None, None)
        store.ping()
        found = spans.take()

    assert [span.name for span in found] == ["jazzmine.locked", "jazzmine.ping"]
    assert [span.parent for span in found] == [None, None]
    assert "detach" not in caplog.text
