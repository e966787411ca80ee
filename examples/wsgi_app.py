r"""The same chat with sync calls, for gunicorn and any other WSGI server.

    JAZZMINE_MESSAGE_STORE=postgresql://… JAZZMINE_WORKING_MEMORY=redis://… \
        gunicorn --config examples/wsgi_gunicorn.py --pythonpath examples wsgi_app:application

The stores are opened when this module is imported, and shared by the threads of a process. With
`--preload` that is before gunicorn forks its workers; each worker then opens its own
connections at its first call.
"""

from __future__ import annotations

import atexit
import json
import logging
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import chat_rules
from sync_turn import turn

from jazzmine import IntegrityError, LockTimeoutError, NotFoundError, StoreUnavailableError
from jazzmine.sync import MessageStore, WorkingMemoryStore

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

store = MessageStore.initialize()
memory = WorkingMemoryStore.initialize()
atexit.register(memory.close)
atexit.register(store.close)


def respond(method: str, path: str, query: str, body: bytes) -> Any:
    """Return the response for a request."""
    if path == "/health":
        store.ping()
        memory.get("health")
        return {"ready": True}
    found = re.fullmatch("/conversations/([^/]+)/messages", path)
    if not found:
        raise NotFoundError(f"there is nothing at {path}")
    if method == "POST":
        reply = turn(store, memory, chat_rules.Said.read(found[1], body))
        return {"reply": reply.original_content}
    options = dict(parse_qsl(query))
    own = store.scoped(user_id=chat_rules.reader(options.get("user_id")))
    messages = own.get_messages_by_conversation_id(found[1], limit=100, after=options.get("after"))
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
    except IntegrityError:
        status, answer = "403 Refused", {"error": "this is another user's conversation"}
    except NotFoundError as error:
        status, answer = "404 Not Found", {"error": str(error)}
    except (StoreUnavailableError, LockTimeoutError) as error:
        # The client may repeat the request a little later; nothing is stored twice. The error's
        # text names the server.
        logger.warning("busy: %s", error)
        status, answer = "503 Service Unavailable", {"error": "try again in a moment"}
        headers.append(("Retry-After", "1"))
    start_response(status, headers)
    return [json.dumps(answer).encode()]
