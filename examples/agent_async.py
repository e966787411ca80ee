r"""A chat on an event loop, with async stores that the application's lifespan opens and closes.

    JAZZMINE_MESSAGE_STORE=postgresql://… JAZZMINE_WORKING_MEMORY=redis://… \
        uvicorn --app-dir examples agent_async:app

Without these variables it keeps its messages in `messages.json` and its working memory in this
process. With SQLite, PostgreSQL or Redis for the second, several processes may serve the same
conversations.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypedDict

import chat_rules
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from jazzmine import IntegrityError, LockTimeoutError, Message, NotFoundError, StoreUnavailableError
from jazzmine.core import MessageStore, WorkingMemoryStore

logger = logging.getLogger(__name__)


class Stores(TypedDict):
    """The stores that every request uses."""

    store: MessageStore
    memory: WorkingMemoryStore


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[Stores]:
    """Open the stores that the environment names, and close them at the end."""
    async with (
        await MessageStore.initialize() as store,
        await WorkingMemoryStore.initialize() as memory,
    ):
        yield {"store": store, "memory": memory}


async def look_up_price(tea: str) -> int | None:
    """The agent's tool: query the catalogue, another service."""
    await asyncio.sleep(0.01)
    return chat_rules.PRICES.get(tea)


async def turn(store: MessageStore, memory: WorkingMemoryStore, said: chat_rules.Said) -> Message:
    """Answer a message of the user, and store the whole turn: all of it or nothing.

    The conversation is locked from the first line to the last, so that its turns come one
    after another, however many requests there are at once.
    """
    cid = said.conversation_id
    conversation = await store.get_or_create_conversation(chat_rules.conversation(said))
    chat_rules.require_user(conversation, said)
    await memory.get_or_create(cid, said.user_id, chat_rules.AGENT)
    async with memory.locked(cid, said.question_id) as wm:
        began = chat_rules.now()
        context = await store.get_immediate_context(cid, 6)
        cache = chat_rules.understand(said, context, wm)
        wm.begin_turn(cache)
        answered = await store.get_message_by_id(said.reply_id)
        if answered is not None:  # sent again: its reply was lost, or the process died
            wm.end_turn(answered.original_content, cache.intent)
            return answered
        for tea in chat_rules.teas_to_look_up(cache):
            wm.record_tool_call(chat_rules.tool_call(tea, await look_up_price(tea)))
        text = chat_rules.answer(wm)
        wm.end_turn(text, cache.intent)
        question, reply = chat_rules.messages(said, cache, text, began)
        trace = chat_rules.trace(question, reply, context, wm)
        await store.append_messages(cid, [question, reply], trace=trace)
    return reply


async def say(request: Request) -> Response:
    """POST: one turn."""
    said = chat_rules.Said.read(request.path_params["cid"], await request.body())
    reply = await turn(request.state.store, request.state.memory, said)
    return JSONResponse({"reply": reply.original_content})


async def history(request: Request) -> Response:
    """GET: the user's conversation, a page at a time."""
    user_id = chat_rules.reader(request.query_params.get("user_id"))
    own = request.state.store.scoped(user_id=user_id)
    messages = await own.get_messages_by_conversation_id(
        request.path_params["cid"], limit=100, after=request.query_params.get("after")
    )
    return JSONResponse([message.model_dump(mode="json") for message in messages])


async def health(request: Request) -> Response:
    """GET: whether the stores can be reached."""
    await request.state.store.ping()
    await request.state.memory.get("health")
    return JSONResponse({"ready": True})


async def wrong(request: Request, error: Exception) -> Response:
    """Report an invalid request."""
    return JSONResponse({"error": str(error)}, getattr(error, "status", 404))


async def taken(request: Request, error: Exception) -> Response:
    """Refuse a conversation whose working memory is another user's."""
    return JSONResponse({"error": "this is another user's conversation"}, 403)


async def busy(request: Request, error: Exception) -> Response:
    """Ask the client to repeat the request a little later, which stores nothing twice."""
    logger.warning("busy: %s", error)  # its text names the server
    return JSONResponse({"error": "try again in a moment"}, 503, headers={"Retry-After": "1"})


app = Starlette(
    lifespan=lifespan,
    routes=[
        Route("/conversations/{cid}/messages", say, methods=["POST"]),
        Route("/conversations/{cid}/messages", history),
        Route("/health", health),
    ],
    exception_handlers={
        chat_rules.RequestError: wrong,
        NotFoundError: wrong,  # `after` is the id of no message of the conversation
        IntegrityError: taken,
        StoreUnavailableError: busy,
        LockTimeoutError: busy,
    },
)
