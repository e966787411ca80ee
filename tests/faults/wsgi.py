"""Served by a test with gunicorn --preload: opens its stores before the workers are forked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from jazzmine.sync.message_store import Message, MessageRole, MessageStore
from jazzmine.sync.working_memory import WorkingMemoryStore

messages = MessageStore.initialize(json.loads(os.environ["FAULTS_MESSAGES"]))
memory = WorkingMemoryStore.initialize(json.loads(os.environ["FAULTS_MEMORY"]))
messages.ping()
memory.get_or_create("c1", "u1", "a1")


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Store a message, named by the path, and count a turn."""
    message = Message(
        id=environ["PATH_INFO"],
        conversation_id="c1",
        user_id="u1",
        role=MessageRole.USER,
        original_content="hello",
        timestamp=1,
    )
    messages.store_message(message)
    memory.end_turn("c1", environ["PATH_INFO"], "intent")
    start_response("200 OK", [])
    return [str(os.getpid()).encode()]
