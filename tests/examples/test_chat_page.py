"""The chat page of the guide on FastAPI before clients that repeat a request, or go away."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from jazzmine.core import Message, MessageStore
from tests.examples.test_documentation import defined_in

MESSAGES = "/conversations/c1/messages"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the guide defines."""
    monkeypatch.setenv("JAZZMINE_MESSAGE_STORE", f"sqlite:{tmp_path / 'agent.db'}")
    return defined_in("guides/fastapi.md", lambda text: "TestClient" not in text)


@pytest.fixture
async def guide(program: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """What the guide defines, with its application started."""
    async with program["lifespan"](program["app"]):
        yield program


async def post(
    app: Any, path: str, said: dict[str, str], parts: int | None = None, *, blocks: bool = False
) -> int:
    """Send a message, and return the status.

    The client goes away after so many parts of the answer, while the server waits for the next
    one, or (`blocks`) for the client.
    """
    status, received = 0, 0
    gone = anyio.Event()
    request = [{"type": "http.request", "body": json.dumps(said).encode(), "more_body": False}]

    async def receive() -> dict[str, Any]:
        if request:
            return request.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, received
        status = message.get("status", status)
        received += bool(message.get("body"))
        if received == parts:
            gone.set()
            if blocks:
                await anyio.sleep_forever()

    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.0"}, "method": "POST",
        "path": path, "raw_path": path.encode(), "query_string": b"", "http_version": "1.1",
        "headers": [(b"x-user", b"ada"), (b"content-type", b"application/json")],
    }  # fmt: skip
    await app(scope, receive, send)
    return status


async def stored(guide: dict[str, Any]) -> list[Message]:
    messages: list[Message] = await guide["app"].state.store.get_messages_by_conversation_id("c1")
    return messages


@pytest.mark.parametrize("text", ["hello", "cut in an emoji \ud83d"])
async def test_a_repeated_request_is_one_turn(guide: dict[str, Any], text: str) -> None:
    for _ in range(2):
        assert await post(guide["app"], MESSAGES, {"id": "m1", "text": text}) == 200
    assert [message.id for message in await stored(guide)] == ["m1", "m1-reply"]


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("parts", [1, 2, None])
async def test_a_stream_whose_reader_has_gone_is_not_left_open(
    guide: dict[str, Any], monkeypatch: pytest.MonkeyPatch, parts: int | None, blocks: bool
) -> None:
    view = type(guide["app"].state.store.scoped(user_id="ada"))
    edit = view.edit_message

    async def edit_slowly(*args: Any, **fields: Any) -> Message:
        await anyio.sleep(0.05)  # a call that is cancelled here changes nothing
        message: Message = await edit(*args, **fields)
        return message

    monkeypatch.setattr(view, "edit_message", edit_slowly)
    said = {"id": "m1", "text": "hi"}
    assert await post(guide["app"], "/conversations/c1/stream", said, parts, blocks=blocks) == 200
    for _ in range(500):
        gc.collect()  # which closes an abandoned generator
        await anyio.sleep(0.02)
        question, reply = await stored(guide)
        if "streams" not in reply.metadata:
            break
    assert "streams" not in reply.metadata
    assert (question.id, reply.id) == ("m1", "m1-reply")
    assert reply.original_content
    assert "You said: hi".startswith(reply.original_content)


async def test_a_stream_that_is_cancelled_by_a_server_that_stops_is_not_left_open(
    program: dict[str, Any],
) -> None:
    app = program["app"]
    async with program["lifespan"](app):
        said = {"id": "m1", "text": "hi"}
        answer = asyncio.create_task(post(app, "/conversations/c1/stream", said))
        while not program["streaming"]:  # noqa: ASYNC110 - a program of a guide has no events
            await asyncio.sleep(0)
        answer.cancel()
    await asyncio.wait([answer])
    async with await MessageStore.initialize(None) as store:
        _, reply = await store.get_messages_by_conversation_id("c1")
    assert (reply.original_content, reply.metadata) == ("You said: ", {})
