r"""The same chat with plain calls, for gunicorn and any other WSGI server.

    JAZZMINE_MESSAGE_STORE=postgresql://… JAZZMINE_WORKING_MEMORY=redis://… \
        gunicorn --chdir examples --config wsgi_gunicorn.py wsgi_app:application

The stores are opened when this module is imported, and shared by the threads of a process. With
`--preload` that is before gunicorn forks its workers; each worker then opens connections of its
own at its first call.
"""

from __future__ import annotations

import atexit
import json
import re
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import chat_rules

from jazzmine import LockTimeoutError, Message, NotFoundError, StoreUnavailableError
from jazzmine.sync import MessageStore, WorkingMemoryStore

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

store = MessageStore.initialize()
memory = WorkingMemoryStore.initialize()
atexit.register(memory.close)
atexit.register(store.close)


def look_up_price(tea: str) -> int | None:
    """The agent's tool: ask the catalogue, a service elsewhere."""
    time.sleep(0.01)
    return chat_rules.PRICES.get(tea)


def turn(store: MessageStore, memory: WorkingMemoryStore, said: chat_rules.Said) -> Message:
    """Hear the user, answer, and store the whole turn: all of it or nothing.

    The conversation is locked from the first line to the last, so that its turns come one
    after another, however many requests there are at once.
    """
    cid = said.conversation_id
    memory.get_or_create(cid, said.user_id, chat_rules.AGENT)
    with memory.locked(cid) as wm:
        answered = store.get_message_by_id(said.reply_id)
        if answered is not None:  # the request was sent again: its reply went lost
            return answered
        conversation = chat_rules.conversation(store.get_conversation_by_id(cid), said)
        context = store.get_immediate_context(cid, 6)
        wm.begin_turn(chat_rules.understand(said, conversation, context, wm))
        for tea in chat_rules.teas_to_look_up(wm):
            wm.record_tool_call(chat_rules.tool_call(tea, look_up_price(tea)))
        intent = wm.current_turn.intent if wm.current_turn else ""
        wm.end_turn(chat_rules.answer(wm), intent)
        question, reply = chat_rules.messages(said, conversation, wm)
        conversation.last_updated_at = reply.timestamp
        store.store_turn(
            conversation=conversation,
            messages=[question, reply],
            trace=chat_rules.trace(question, reply, context, wm),
        )
    return reply


def respond(method: str, path: str, query: str, body: bytes) -> Any:
    """Find out what the request wants, and do it."""
    if path == "/health":
        store.ping()
        memory.get("health")
        return {"ready": True}
    found = re.fullmatch("/conversations/([^/]+)/messages", path)
    if not found:
        raise NotFoundError(f"there is nothing at {path}")
    if method == "POST":
        reply = turn(store, memory, chat_rules.Said.read(found[1], body))
        return {"reply": reply.original_content, "turn": reply.metadata["turn"]}
    after = parse_qs(query).get("after", [None])[0]
    messages = store.get_messages_by_conversation_id(found[1], limit=100, after=after)
    return [message.model_dump(mode="json") for message in messages]


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer one request."""
    path = environ["PATH_INFO"].encode("latin-1").decode(errors="replace")
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    status, headers = "200 OK", [("Content-Type", "application/json")]
    try:
        answer = respond(environ["REQUEST_METHOD"], path, environ["QUERY_STRING"], body)
    except chat_rules.RequestError as error:
        status, answer = f"{error.status} Refused", {"error": str(error)}
    except NotFoundError as error:
        status, answer = "404 Not Found", {"error": str(error)}
    except (StoreUnavailableError, LockTimeoutError) as error:
        # The client may send the same again a little later; nothing will be doubled.
        status, answer = "503 Service Unavailable", {"error": str(error)}
        headers.append(("Retry-After", "1"))
    start_response(status, headers)
    return [json.dumps(answer).encode()]
