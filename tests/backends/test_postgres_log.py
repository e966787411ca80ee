"""What is special about a conversation as a log in PostgreSQL."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any

import psycopg
import pytest

from jazzmine.backends.columns import CONVERSATIONS, MESSAGES, TURN_TRACES, Table
from jazzmine.errors import IntegrityError
from jazzmine.records.messages import Message
from tests.backends.postgres_apis import opened
from tests.backends.postgres_samples import bound, config, conversation, message, trace

NEW_SCHEMA = True  # the fixture `schema`


ADD_COLUMNS = """
ALTER TABLE $schema.conversations ADD COLUMN tenant text NOT NULL DEFAULT 'acme';
ALTER TABLE $schema.messages ADD COLUMN language text NOT NULL DEFAULT 'en';
ALTER TABLE $schema.turn_traces ADD COLUMN language text NOT NULL DEFAULT 'en'
"""


async def test_the_log_goes_on_when_the_application_adds_columns(
    schema: str, admin: psycopg.Connection[Any]
) -> None:
    """The session has run the functions before."""
    first, last = message("m1"), message("m2")
    async with opened("async", config(schema, pool_min=1, pool_max=1)) as store:
        await store.store_conversation(conversation())
        for n, change in enumerate(("", ADD_COLUMNS)):
            admin.execute(bound(change, schema))
            await store.append_messages("c1", [first, last])
            await store.append_messages("c1", [first, last])
            with pytest.raises(IntegrityError):
                await store.append_messages("c1", [first, message("m3")])
            await store.store_turn_trace(trace("m1"))
            await store.fork_conversation("c1", conversation(f"copy {n}"), until="m1")
            assert await store.pop_message("c1") == last
            assert await store.rewind_conversation("c1", after=None) == 1
        tenants = bound("SELECT tenant FROM $schema.conversations", schema)
        assert set(admin.execute(tenants)) == {("acme",)}
        [copied] = await store.get_messages_by_conversation_id("copy 1")
        assert await store.get_turn_trace_by_message_id(copied.id) is not None


@pytest.mark.parametrize("table", [CONVERSATIONS, MESSAGES, TURN_TRACES])
def test_the_function_that_stores_records_has_all_columns(table: Table) -> None:
    file = resources.files("jazzmine.backends.postgres").joinpath("functions/store.sql")
    text = re.sub(r"\( ", "(", " ".join(file.read_text("utf-8").split()))
    assert f"({table.columns}{', entry' if table is MESSAGES else ''})" in text
    key = {"conversation_id", "id"} if table is MESSAGES else {"message_id", "id"}
    for column in set(table.kind.model_fields) - key:
        assert f" {column} = excluded.{column}" in text
    if table is MESSAGES:
        base = re.search(r"'({.*?})'\)", text)
        assert base is not None
        fields = Message.model_fields.items()
        assert json.loads(base[1]) == {
            name: field.get_default(call_default_factory=True)
            for name, field in fields
            if table.defaults[name] is not None
        }
