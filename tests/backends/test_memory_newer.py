"""A rolling upgrade: working memories that a newer version has written."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from jazzmine.errors import NewerFormatError
from jazzmine.records.memory_json import to_json
from tests.backends.memory_tables import Locks
from tests.behaviour.memory_samples import UPDATES, Update, busy


@pytest.fixture
def store(open_store: Callable[..., Any]) -> Any:
    return open_store()


def put(store: Any, rows: Locks, **changes: Any) -> bytes:
    """Store what a newer version would."""
    store.get_or_create("c", "user", "agent")
    memory = busy("c")
    memory.revision = 1
    data = json.dumps({**json.loads(to_json(memory)), **changes}).encode()
    rows.put(data)
    return data


def stored(rows: Locks) -> Any:
    return json.loads(rows.data() or b"null")


def test_an_update_keeps_unknown_fields(store: Any, rows: Locks) -> None:
    put(store, rows, mood={"of": ["the user"]})

    updated = store.end_turn("c", "Hello", "greet")

    kept = stored(rows)
    assert kept["mood"] == {"of": ["the user"]}
    assert kept["last_agent_response"] == updated.last_agent_response == "Hello"


@pytest.mark.parametrize("update", UPDATES, ids=str)
def test_a_higher_format_is_refused_and_left_where_it_is(
    store: Any, rows: Locks, update: Update, caplog: pytest.LogCaptureFixture
) -> None:
    blob = put(store, rows, format=2)

    with caplog.at_level(logging.ERROR), pytest.raises(NewerFormatError, match="format 2"):
        update.on(store, "c")

    assert rows.data() == blob
    assert rows.holder() is None
    assert not caplog.records
