"""Fixtures: a store with a little of everything, and its URL."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import pytest

from jazzmine.sync import MessageStore
from tests.behaviour.samples import (
    NOW,
    conversation,
    full_message,
    full_trace,
    llm_call,
    message,
    trace,
)
from tests.servers import mongodb, postgres

if find_spec("typer") is None or find_spec("rich") is None:
    collect_ignore_glob = ["test_*.py"]  # the extra `cli` is not installed

ESCAPES = "red \x1b[31malert\x1b[0m bell \x07 eight-bit \x9b2J title \x1b]0;owned\x07 \u202etxt.exe"


def fill(store: MessageStore) -> None:
    """Store three conversations with messages of equal times, and traces."""
    store.store_conversation(conversation("c1", title=ESCAPES, metadata={"b": 1, "a": [1.5, None]}))
    store.store_conversation(conversation("c3", user_id="u2", last_updated_at=NOW + 9, title=""))
    store.store_conversation(conversation("c2", agent_id="a2", title='Müsli, "quoted"'))
    store.store_messages(
        [
            message("z", original_content=f"hello\n\tthere\n{ESCAPES}"),
            full_message("y", "an answer"),
            message("in-c2", conversation_id="c2"),
            message("x", original_content="<script>alert('&')</script>"),
            message("a", metadata={"z": 1, "y": {"b": 2, "a": 1}}),
        ]
    )
    store.store_turn_trace(full_trace("y", errors=["it failed"], agent_id="a1"))
    store.store_turn_trace(
        trace("in-c2", conversation_id="c2", agent_id="a2", llm_calls=[llm_call(total_tokens=7)])
    )
    store.store_turn_trace(trace("a", turn_number=4, total_tokens=40, detected_intent="ask"))


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The path of a JSON store that is filled."""
    path = str(tmp_path / "messages.json")
    with MessageStore.initialize(f"json:{path}") as store:
        fill(store)
    return path


@pytest.fixture
def url(path: str) -> str:
    """The URL of a JSON store that is filled."""
    return f"json:{path}"


@pytest.fixture
def new_postgres_url() -> Iterator[str]:
    """The URL of a schema that does not exist yet."""
    with postgres.new_schema() as schema:
        yield f"{postgres.dsn()}?schema={quote(schema)}"


@pytest.fixture
def new_mongodb_url() -> Iterator[str]:
    """The URL of a database that does not exist yet."""
    with mongodb.database() as config:
        yield f"{str(config['uri']).rstrip('/')}/{config['db']}"
