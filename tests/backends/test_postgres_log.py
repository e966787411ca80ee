"""What is special about a conversation as a log in PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import ValidationError

import jazzmine
from jazzmine.backends.postgres.schema import migrations
from jazzmine.errors import IntegrityError
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


NEW_FIELD = """
import sys
from jazzmine.sync import Conversation, Message, MessageRole, MessageStore, TurnTrace

config = {"storage": "postgres", "dsn": sys.argv[1], "schema": sys.argv[2]}
said = {"conversation_id": "c1", "user_id": "u", "role": MessageRole.USER, "original_content": ""}
of = {"message_id": "m2", "conversation_id": "c1", "user_id": "u", "agent_id": "a"}
times = dict.fromkeys(("turn_number", "started_at_ms", "ended_at_ms", "total_latency_ms"), 0)
with MessageStore.initialize(config) as store:
    store.store_conversation(Conversation(id="c1", user_id="u", agent_id="a"))
    plain, given = Message(id="m1", **said), Message(id="m2", **said, language="pt", tags=["x"])
    appended = store.append_messages("c1", [plain, given])
    assert [(one.language, one.tags) for one in appended] == [("", []), ("pt", ["x"])]
    stored = store.get_messages_by_conversation_id("c1")
    assert [(one.language, one.tags) for one in stored] == [("", []), ("pt", ["x"])]
    assert store.append_messages("c1", [plain, given]) == stored
    store.store_turn_trace(TurnTrace(language="pt", **of, **times))
    ids = store.fork_conversation("c1", Conversation(id="c2", user_id="u", agent_id="a"))
    assert store.get_message_by_id(ids["m2"]).tags == ["x"]
    assert store.get_turn_trace_by_message_id(ids["m2"]).language == "pt"
    assert store.pop_message("c1") == stored[1]
"""
TEXT_FIELD = '    language: Text = ""\n'
LIST_FIELD = "    tags: list[Text] = Field(default_factory=list)\n"
NEW_LINES = (
    ("messages", "    is_flagged: bool", TEXT_FIELD + LIST_FIELD),
    ("traces", "    detected_intent: Text", TEXT_FIELD),
)
ADDED = "$added_columns"


def test_a_new_field_is_one_line_in_the_record_and_one_migration(
    own_schema: str, tmp_path: Path
) -> None:
    package = tmp_path / "jazzmine"
    shutil.copytree(Path(jazzmine.__file__).parent, package)
    for name, after, lines in NEW_LINES:
        source = package / "records" / f"{name}.py"
        text = source.read_text()
        assert text.count(after) == 1
        source.write_text(text.replace(after, lines + after))
    folder = package / "backends/postgres/migrations"
    (folder / f"{migrations()[-1].version + 1:04}_language.sql").write_text(ADDED)
    ran = subprocess.run(
        [sys.executable, "-c", NEW_FIELD, postgres.dsn(), own_schema],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


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


UNREADABLE = {
    "role": "role = 'oracle'",
    "sentiment": "sentiment_score = 7",
    "errors": "errors = '[1]'",
    "texts": "explicit_context = '{}'",
    "entities": """entities = '[{"name": "a", "size": 1}]'""",
    "attributes": """entities = '[{"name": "a", "attributes": [1]}]'""",
    "entity": "entities = '[7]'",
    "metadata": "metadata = '[]'",
}


@pytest.mark.parametrize("change", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_message_that_cannot_be_read_is_not_popped(
    schema: str, beside: psycopg.Connection[Any], change: str
) -> None:
    async with opened("async", config(schema)) as store:
        await store.store_conversation(conversation())
        await store.store_message(message("m1"))
        beside.execute(f'UPDATE "{schema}".messages SET {change}'.encode())
        with pytest.raises(ValidationError):
            await store.pop_message("c1")
        assert beside.execute(f'SELECT id FROM "{schema}".messages'.encode()).fetchall() == [
            ("m1",)
        ]


USES = {
    "message": """
        INSERT INTO $schema.messages
            (id, conversation_id, user_id, role, original_content, timestamp)
        VALUES ('m2', 'c1', 'u', 'user', 'still here', 50)""",
    "conversation": "UPDATE $schema.conversations SET last_updated_at = 50",
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_a_conversation_that_was_found_to_be_old_and_is_used_stays(
    schema: str, beside: psycopg.Connection[Any], use: str
) -> None:
    async with opened("async", config(schema)) as store:
        await store.store_conversation(conversation())
        await store.store_message(message("m1"))
        assert await while_locked(beside, schema, store.prune_conversations(before=50), use) == 0
        assert await store.get_conversation_by_id("c1")
        assert await store.get_message_by_id("m1")
