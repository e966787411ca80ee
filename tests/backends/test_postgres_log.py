"""What is special about a conversation as a log in PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from importlib import resources
from os import urandom
from typing import Any

import psycopg
import pytest

from jazzmine.backends.columns import CONVERSATIONS, MESSAGES, TURN_TRACES, Table
from jazzmine.errors import DecryptionError, IntegrityError
from jazzmine.records.messages import Message
from tests.backends.postgres_apis import APIS, opened
from tests.backends.postgres_samples import config, conversation, message, trace
from tests.servers import postgres

OTHER = "another client"


@pytest.fixture
def own_schema() -> Iterator[str]:
    """The name of a schema that a test may change."""
    with postgres.new_schema() as name:
        yield name


@pytest.fixture
def beside() -> Iterator[psycopg.Connection[Any]]:
    with postgres.connect(postgres.dsn(), application_name=OTHER) as connection:
        yield connection


ADD_COLUMNS = """
ALTER TABLE $schema.messages ADD COLUMN language text NOT NULL DEFAULT 'en';
ALTER TABLE $schema.turn_traces ADD COLUMN language text NOT NULL DEFAULT 'en'
"""


@pytest.mark.parametrize("api", APIS)
async def test_the_log_goes_on_when_a_newer_version_adds_columns(
    api: str, own_schema: str, beside: psycopg.Connection[Any]
) -> None:
    """The session has run the functions before."""
    first, last = message("m1"), message("m2")
    async with opened(api, config(own_schema, pool_min=1, pool_max=1)) as store:
        await store.store_conversation(conversation())
        for n, change in enumerate(("", ADD_COLUMNS)):
            for statement in filter(None, change.split(";")):
                beside.execute(statement.replace("$schema", f'"{own_schema}"').encode())
            await store.append_messages("c1", [first, last])
            await store.append_messages("c1", [first, last])
            with pytest.raises(IntegrityError):
                await store.append_messages("c1", [first, message("m3")])
            await store.store_turn_trace(trace("m1"))
            await store.fork_conversation("c1", conversation(f"copy {n}"), until="m1")
            assert await store.pop_message("c1") == last
            assert await store.rewind_conversation("c1", after=None) == 1
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


async def while_locked(
    connection: psycopg.Connection[Any], schema: str, call: Any, statement: str
) -> Any:
    """Start a call while its conversation is locked; run a statement, and let the call go on."""
    with connection.transaction():
        lock = f'SELECT FROM "{schema}".conversations WHERE id = %s FOR UPDATE'
        connection.execute(lock.encode(), ["c1"])
        task = asyncio.ensure_future(call)
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
        )
        while connection.execute(waiting.encode(), [f"%{schema}%"]).fetchone() == (0,):
            connection.execute("SELECT pg_stat_clear_snapshot()")
            await asyncio.sleep(0.01)
        connection.execute(statement.replace("$schema", f'"{schema}"').encode())
    return await task


NEWER = """
INSERT INTO $schema.messages (id, conversation_id, user_id, role, original_content, timestamp)
VALUES ('newer', 'c1', 'u', 'user', 'text', 9000000000000)
"""


async def test_what_was_committed_while_an_append_waited_is_seen(
    schema: str, beside: psycopg.Connection[Any]
) -> None:
    async with opened("async", config(schema)) as store:
        await store.store_conversation(conversation())
        call = store.append_messages("c1", [message("m1")])
        [appended] = await while_locked(beside, schema, call, NEWER)
        assert appended.timestamp == 9_000_000_000_000
        assert [one.id for one in await store.get_messages_by_conversation_id("c1")] == [
            "newer",
            "m1",
        ]


async def test_a_message_that_no_key_opens_is_not_popped(schema: str) -> None:
    def key(name: str) -> str:
        return f"{name}:{b64encode(urandom(32)).decode()}"

    one, other = (config(schema, encryption=key(name)) for name in ("one", "other"))
    async with opened("async", config(schema)) as plain, opened("async", one) as sealed:
        await plain.store_conversation(conversation())
        for owner, others in ((plain, [sealed]), (sealed, [plain])):
            await owner.store_message(message("m1"))
            async with opened("async", other) as stranger:
                for reader in (*others, stranger):
                    with pytest.raises(DecryptionError):
                        await reader.pop_message("c1")
            assert await owner.pop_message("c1") == message("m1")
