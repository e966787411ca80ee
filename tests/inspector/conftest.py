"""Fixtures: stores with a little of everything, and a browser's requests to the inspector."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from jazzmine import ActiveFlowState, PendingConfirmation, Slot, ToolCallRecord, TurnCache
from jazzmine.core import MessageStore, WorkingMemoryStore
from tests.behaviour.samples import (
    NOW,
    conversation,
    full_message,
    full_trace,
    llm_call,
    message,
    trace,
)

if any(
    find_spec(name) is None for name in ("starlette", "uvicorn", "jinja2", "markdown_it", "typer")
):
    collect_ignore_glob = ["test_*.py"]  # the extra `inspector` is not installed
else:
    from jazzmine.inspector.app import create_app
    from jazzmine.inspector.pages import Stores
    from jazzmine.inspector.security import Access

HOSTILE = "<script>alert('&')</script><img src=x onerror=alert(1)> \" ' \x00 \x1b[31m \u202etxt.exe"


@dataclass
class Site:
    """The inspector, its stores, and a client that has the cookie."""

    store: MessageStore
    memory: WorkingMemoryStore
    access: Access
    client: httpx.AsyncClient
    stranger: httpx.AsyncClient

    async def text(self, path: str, status: int = 200, /, **parameters: str) -> str:
        """Return a page, whose status must be this one."""
        answer = await self.client.get(path, params=parameters or None)
        assert answer.status_code == status, answer.text
        return answer.text


async def fill(store: MessageStore, memory: WorkingMemoryStore) -> None:
    """Store three conversations, one of them hostile, traces, and a working memory."""
    await store.store_conversation(conversation("c1", title=HOSTILE, metadata={"k": HOSTILE}))
    await store.store_conversation(conversation("c2", agent_id="a2", last_updated_at=NOW + 9))
    await store.store_conversation(conversation("c/3 ?&#%", user_id="u2", title="", agent_id="a2"))
    await store.store_messages(
        [
            message("m1", original_content=f"Hello {HOSTILE}"),
            full_message("m2", f"An answer {HOSTILE}", timestamp=NOW + 1),
            message("m3", original_content="kept out", is_flagged=True, timestamp=NOW + 2),
            message("in-c2", conversation_id="c2"),
        ]
    )
    await store.store_turn_trace(full_trace("m2", agent_id="a1", errors=[f"broken {HOSTILE}"]))
    calls = [llm_call(model=f"m{HOSTILE}", total_tokens=70, latency_ms=30, timestamp_ms=NOW)]
    await store.store_turn_trace(
        trace(
            "in-c2",
            conversation_id="c2",
            agent_id="a2",
            llm_calls=calls,
            total_tokens=70,
            detected_intent=f"x{HOSTILE}",
        )
    )
    await memory.get_or_create("c1", "u1", "a1")
    await memory.begin_turn("c1", TurnCache(1, raw_entities=[{"name": f"entity {HOSTILE}"}]))
    await memory.start_flow("c1", ActiveFlowState("f1", f"flow {HOSTILE}", "flow"))
    await memory.register_slots("c1", [Slot("pickup", f"day {HOSTILE}", "date")])
    await memory.collect_slot("c1", "pickup", None, validation_error=f"wrong {HOSTILE}")
    await memory.record_tool_call("c1", ToolCallRecord("look_up", {}, result=HOSTILE))
    await memory.request_confirmation(
        "c1", PendingConfirmation("f1", f"pay {HOSTILE}", {"amount": HOSTILE}, 1)
    )


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """The inspector of a filled SQLite store and of working memory in this process."""
    async with (
        await MessageStore.initialize(f"sqlite:{tmp_path / 'messages.db'}") as store,
        await WorkingMemoryStore.initialize("memory:") as memory,
    ):
        await fill(store, memory)
        async with opened(store, memory) as site:
            yield site


@asynccontextmanager
async def opened(store: MessageStore, memory: WorkingMemoryStore | None) -> AsyncIterator[Site]:
    """Open the inspector of some stores for a block."""
    access = Access(80)
    app = create_app(Stores(store, memory, "a test", "a test" if memory else ""), access)

    def browser() -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app)
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    async with browser() as client, browser() as stranger:
        entered = await client.get("/", params={"token": access.token})
        assert entered.status_code == 303
        yield Site(store, memory, access, client, stranger)  # type: ignore[arg-type]
