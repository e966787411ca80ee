"""What is special about a conversation as a log in PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import re
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
from jazzmine.backends.postgres import log_statements as log_sql
from jazzmine.backends.postgres.schema import bind, migrations
from jazzmine.errors import ConflictError, IntegrityError, StoreUnavailableError
from tests.backends.postgres_apis import APIS, network, opened
from tests.backends.postgres_samples import config, conversation, message, trace
from tests.servers import postgres

OTHER = "another client"


@pytest.fixture
def schema() -> Iterator[str]:
    with postgres.empty_schema() as name:
        yield name


@pytest.fixture
def own_schema() -> Iterator[str]:
    """The name of a schema that a test may change."""
    with postgres.new_schema() as name:
        yield name


@pytest.fixture
def beside() -> Iterator[psycopg.Connection[Any]]:
    with postgres.connect(postgres.dsn(), application_name=OTHER) as connection:
        yield connection


@pytest.mark.parametrize("api", APIS[:1])
async def test_a_pop_converts_the_message_once(
    api: str, schema: str, beside: psycopg.Connection[Any]
) -> None:
    """The condition that it can be read has each field: 1 MB took more than a second."""
    async with opened(api, config(schema)):
        explain = f"EXPLAIN VERBOSE WITH {log_sql.POP} SELECT * FROM main"
        plan = beside.execute(bind(explain, schema), {"owner": "c1", "readable": None}).fetchall()

    assert "\n".join(line for (line,) in plan).count("to_jsonb(") == 1


ADD_COLUMNS = """
ALTER TABLE $schema.messages ADD COLUMN language text NOT NULL DEFAULT 'en';
ALTER TABLE $schema.turn_traces ADD COLUMN language text NOT NULL DEFAULT 'en'
"""


@pytest.mark.parametrize("api", APIS)
async def test_the_log_goes_on_when_a_newer_version_adds_columns(
    api: str, own_schema: str, beside: psycopg.Connection[Any]
) -> None:
    """The session has run the functions before; copies have the new columns of the originals."""
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
            if change:
                for table in ("messages", "turn_traces"):
                    update = f'UPDATE "{own_schema}".{table} SET language = $$pt$$'
                    beside.execute(update.encode())
            await store.fork_conversation("c1", conversation(f"copy {n}"), until="m1")
            assert await store.pop_message("c1") == last
            assert await store.rewind_conversation("c1", after=None) == 1
        [copied] = await store.get_messages_by_conversation_id("copy 1")
        assert await store.get_turn_trace_by_message_id(copied.id) is not None
    for table in ("messages", "turn_traces"):
        found = f"""SELECT language FROM "{own_schema}".{table} WHERE conversation_id = 'copy 1'"""
        assert beside.execute(found.encode()).fetchall() == [("pt",)]


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
    ("messages", "    is_flagged: ", TEXT_FIELD + LIST_FIELD),
    ("traces", "    detected_intent: ", TEXT_FIELD),
)
ADDED = """
ALTER TABLE $schema.messages ADD COLUMN language text NOT NULL DEFAULT '';
ALTER TABLE $schema.messages ADD COLUMN tags jsonb NOT NULL DEFAULT '[]';
ALTER TABLE $schema.turn_traces ADD COLUMN language text NOT NULL DEFAULT '';
"""


def test_a_new_field_is_one_line_in_the_record_and_one_migration(
    own_schema: str, tmp_path: Path
) -> None:
    package = tmp_path / "jazzmine"
    shutil.copytree(Path(jazzmine.__file__).parent, package)
    for name, after, lines in (
        (
            "messages",
            "    is_flagged: ",
            '    language: Text = ""\n    tags: list[Text] = Field(default_factory=list)\n',
        ),
        ("traces", "    detected_intent: ", '    language: Text = ""\n'),
    ):
        source = package / "records" / f"{name}.py"
        text = source.read_text()
        assert text.count(after) == 1
        source.write_text(text.replace(after, lines + after))
    folder = package / "backends/postgres/migrations"
    (folder / f"{len(migrations()) + 1:04}_language.sql").write_text(ADDED)
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


async def test_what_was_committed_while_a_pop_waited_is_popped(
    schema: str, beside: psycopg.Connection[Any]
) -> None:
    async with opened("async", config(schema)) as store:
        await store.store_conversation(conversation())
        await store.store_message(message("m1"))
        popped = await while_locked(beside, schema, store.pop_message("c1"), NEWER)
        assert popped.id == "newer"


async def test_what_was_committed_while_a_rewind_waited_is_deleted(
    schema: str, beside: psycopg.Connection[Any]
) -> None:
    async with opened("async", config(schema)) as store:
        await store.store_conversation(conversation())
        await store.store_message(message("m1"))
        call = store.rewind_conversation("c1", after="m1")
        assert await while_locked(beside, schema, call, NEWER) == 1


NEWER_CONVERSATION = """
INSERT INTO $schema.conversations (id, user_id, agent_id, title, created_at, last_updated_at)
VALUES ('c9', 'u', 'a', '', 1, 1)
"""


async def test_a_conversation_that_is_stored_while_a_write_waits_is_not_locked_after_others(
    schema: str, beside: psycopg.Connection[Any]
) -> None:
    async with opened("async", config(schema)) as store:
        await store.store_conversation(conversation())
        other = message("m2").model_copy(update={"conversation_id": "c9"})
        call = store.store_messages([message("m1"), other])
        with pytest.raises(IntegrityError, match="'c9' is not stored"):
            await while_locked(beside, schema, call, NEWER_CONVERSATION)
        assert await store.get_messages_by_ids(["m1", "m2"]) == []
        await store.store_messages([message("m1"), other])


STORED_ANEW = """
DELETE FROM $schema.conversations WHERE id = 'c1';
INSERT INTO $schema.conversations (id, user_id, agent_id, title, created_at, last_updated_at)
VALUES ('c1', 'u', 'a', '', 1, 1)
"""


async def test_a_conversation_that_is_stored_anew_while_it_is_pruned_is_not_locked_after_others(
    schema: str, beside: psycopg.Connection[Any]
) -> None:
    def prune() -> Any:
        with postgres.connect(postgres.dsn()) as connection:
            call = f"""SELECT written, result
                FROM "{schema}".jazzmine_prune('{{c1,c2}}', {2**62}, 10)"""
            return connection.execute(call.encode()).fetchone()

    async with opened("async", config(schema)) as store:
        for one in ("c1", "c2"):
            await store.store_conversation(conversation(one))
        pruned = await while_locked(beside, schema, asyncio.to_thread(prune), STORED_ANEW)
        assert pruned == (1, "2")
        assert await store.prune_conversations(before=2**62) == 1


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


async def test_a_message_that_can_be_repaired_is_popped(
    schema: str, beside: psycopg.Connection[Any]
) -> None:
    async with opened("async", config(schema)) as store:
        await store.store_conversation(conversation())
        await store.store_message(message("m1"))
        beside.execute(f"""UPDATE "{schema}".messages SET sentiment_score = 'NaN'""".encode())
        assert (await store.pop_message("c1")).sentiment_score == 0.0
        assert await store.pop_message("c1") is None


@pytest.mark.parametrize("api", APIS)
async def test_erasing_a_user_erases_what_leases_hold_of_the_user(
    api: str, schema: str, beside: psycopg.Connection[Any]
) -> None:
    leases = f'SELECT jsonb_agg(to_jsonb(one))::text FROM "{schema}".jazzmine_leases AS one'
    async with opened(api, config(schema)) as store, opened(api, config(schema)) as eraser:
        owner = conversation()
        await store.store_conversation(owner)
        words = message("m1").model_copy(update={"original_content": "my own words"})
        await store.append_messages("c1", [words])
        await store.pop_message("c1")
        assert "my own words" in str(beside.execute(leases.encode()).fetchone())
        await eraser.erase_user(words.user_id)
        found = str(beside.execute(leases.encode()).fetchone())
        assert "my own words" not in found
        assert words.user_id not in re.findall(r'"users": \[([^]]*)\]', found)


async def test_a_pop_of_which_the_server_knows_nothing_any_more_is_not_repeated(
    schema: str, beside: psycopg.Connection[Any]
) -> None:
    """As after a crash of the server, which empties the table of the leases."""
    with network("direct", schema, pool_min=1, pool_max=1) as (proxy, options):
        async with opened("sync", options) as store:
            await store.store_conversation(conversation())
            await store.append_messages("c1", [message(f"m{n}") for n in (1, 2, 3)])
            await store.pop_message("c1")  # so the statement is prepared
            delete = f'DELETE FROM "{schema}".jazzmine_leases'.encode()
            proxy.on_loss = lambda: beside.execute(delete)
            proxy.lose_reply(1)
            with pytest.raises(StoreUnavailableError, match="the reply was lost"):
                await store.pop_message("c1")
            proxy.lose_reply(0)
            assert [one.id for one in await store.get_messages_by_conversation_id("c1")] == ["m1"]


async def test_appends_that_wait_for_a_connection_are_sent_together(
    schema: str, beside: psycopg.Connection[Any]
) -> None:
    """Those to different conversations; others follow in turn, and a refused one fails alone."""
    async with opened("async", config(schema, pool_min=1, pool_max=1)) as store:
        for name in ("c1", "c2"):
            await store.store_conversation(conversation(name))
        await store.append_messages("c1", [message("m0")])

        def append(name: str, owner: str, **keywords: Any) -> Any:
            one = message(name).model_copy(update={"conversation_id": owner})
            return store.append_messages(owner, [one], **keywords)

        statements = []
        change = store._client.change

        async def counted(*args: Any, **keywords: Any) -> Any:
            statements.append(args[1]["ids"])
            return await change(*args, **keywords)

        store._client.change = counted
        results = await asyncio.gather(
            append("alone", "c2", expected_last=None),
            append("m1", "c1", expected_last="m0"),
            append("n1", "c2"),
            append("m2", "c1", expected_last="m1"),
            append("lost", "c1", expected_last="m0"),
            append("m0", "c1"),
            append("unknown", "c3"),
            append("m3", "c1"),
            append("m3", "c1"),
            return_exceptions=True,
        )
        held = [one.id for one in await store.get_messages_by_conversation_id("c1")]
    assert held == ["m0", "m1", "m2", "m3"]
    refused = [type(one) for one in results if not isinstance(one, list)]
    assert refused == [ConflictError, IntegrityError]
    assert [one[0].id for one in results if isinstance(one, list)] == [
        *("alone", "m1", "n1", "m2", "m0", "m3", "m3")
    ]
    assert statements[:2] == [["alone"], ["m1", "n1", "unknown"]]
    assert sorted(statements[2:]) == [["lost"], ["m0"], ["m2"], ["m3"], ["m3"], ["unknown"]]
