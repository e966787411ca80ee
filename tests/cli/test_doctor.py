"""`doctor` on set-ups that are broken in one way each, and `migrate`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from jazzmine._sync.clients.postgres import migration as postgres_migration
from jazzmine._sync.factory import new_working_memory
from jazzmine.backends.postgres import doctor as doctor_postgres_checks
from jazzmine.backends.postgres.schema import MEMORY_TABLES, MESSAGE_TABLES, Migration, migrations
from jazzmine.cli import doctor_mongodb, doctor_postgres, doctor_redis
from jazzmine.config import working_memory_config
from jazzmine.sync import LongTermMemoryStore, MemoryItem, MessageStore
from tests.cli.program import all_records, diagnosed, one_found, run
from tests.servers import mongodb, postgres
from tests.servers.redis import Server


@pytest.fixture
def admin() -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with postgres.connect(postgres.dsn()) as connection:
        yield connection


@pytest.fixture
def current_url(new_postgres_url: str) -> str:
    MessageStore.initialize(new_postgres_url).close()
    return new_postgres_url


def schema_of(url: str) -> str:
    return url.rpartition("schema=")[2]


# What is in order


def test_nothing_is_wrong_with_a_store_that_works(current_url: str) -> None:
    ran = run("doctor", "--store", current_url)
    assert ran.status == 0
    assert "cure" not in ran.output
    for text in ("PostgreSQL", "clocks agree", "all indexes", "all rights", "up to date"):
        assert text in ran.output


def test_nothing_is_wrong_with_a_file(url: str, path: str, tmp_path: Path) -> None:
    assert diagnosed("--store", url) == (0, [])
    MessageStore.initialize(f"sqlite:{tmp_path / 'messages.db'}").close()
    assert diagnosed("--store", f"sqlite:{tmp_path / 'messages.db'}") == (0, [])


# PostgreSQL


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ('DROP INDEX "{}".idx_msg_conv', "idx_msg_conv"),
        (
            "UPDATE pg_index SET indisvalid = false"
            " WHERE indexrelid = '\"{}\".idx_msg_conv'::regclass",
            "idx_msg_conv",
        ),
        ('DROP INDEX "{}".idx_words_time', "idx_words_time"),
        ('DROP FUNCTION "{}".jazzmine_pop', "jazzmine_pop"),
        ('ALTER SEQUENCE "{}".memory_item_revisions RESTART', "memory_items"),
        ('ALTER TABLE "{}".turn_traces DROP CONSTRAINT turn_traces_pkey', "turn_traces_pkey"),
        (
            'ALTER TABLE "{}".turn_traces DROP CONSTRAINT turn_traces_message_id_key',
            "turn_traces_message_id_key",
        ),
        (
            'ALTER TABLE "{}".messages DROP CONSTRAINT messages_conversation_id_fkey',
            "messages_conversation_id_fkey",
        ),
    ],
    ids=[
        "index",
        "invalid index",
        "index of search",
        "function",
        "sequence",
        "primary key",
        "unique",
        "foreign key",
    ],
)
def test_what_is_wrong_comes_with_the_statement_that_mends_it(
    current_url: str, admin: Any, statement: str, named: str
) -> None:
    with LongTermMemoryStore.initialize(current_url) as store:
        store.put(MemoryItem(namespace=("n",), key="k", value={}))
    run("index", "--store", current_url)
    option = "--items" if named == "memory_items" else "--store"
    admin.execute(statement.format(schema_of(current_url)))
    status, found = one_found(option, current_url)
    assert (status, found["level"]) == (1, "error")
    assert named in found["text"]
    for cure in found["cure"].split("; "):
        admin.execute(cure)
    run("migrate", "--store", current_url)
    assert diagnosed(option, current_url) == (0, [])


def test_an_old_schema_is_noticed_and_migrated(
    current_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, of_memory = migrations(), migrations(MEMORY_TABLES.folder)
    index = "CREATE INDEX idx_msg_next ON $schema.messages (role);"
    newer = (*known, Migration(known[-1].version + 1, "next", index))
    for module in (doctor_postgres_checks, postgres_migration):
        monkeypatch.setattr(
            module,
            "migrations",
            lambda folder=MESSAGE_TABLES.folder: (
                newer if folder == MESSAGE_TABLES.folder else of_memory
            ),
        )
    number = f"{newer[-1].version:04}"
    status, found = one_found("--store", current_url)
    assert (status, found["cure"]) == (1, "jazzmine migrate")
    assert number in found["text"]
    assert number in run("ls", "--store", current_url).errors
    dry = run("migrate", "--dry-run", "--store", current_url)
    assert dry.output.startswith(f"would apply {number}")
    assert diagnosed("--store", current_url)[0] == 1
    assert run("migrate", "--store", current_url).output.startswith(f"done: apply {number}")
    assert diagnosed("--store", current_url) == (0, [])
    assert "up to date" in run("migrate", "--store", current_url).errors


def test_only_what_was_done_is_said_to_be_done(tmp_path: Path) -> None:
    for kind, said in (("json", "with the first record: "), ("sqlite", "done: ")):
        path = tmp_path / f"new.{kind}"
        ran = run("migrate", "--store", f"{kind}:{path}")
        assert (ran.status, path.exists()) == (0, said == "done: ")
        assert ran.output.startswith(said)


def test_a_wrong_password_is_noticed_and_not_shown(current_url: str) -> None:
    url = current_url.replace(postgres.PASSWORD, "not-the-password")
    ran = run("doctor", "--store", url)
    assert ran.status == 3
    assert "the user or the password" in ran.output
    assert "not-the-password" not in ran.output + ran.errors


@pytest.mark.parametrize(
    ("option", "url"),
    [
        ("--store", "postgresql://u:sesame@127.0.0.1:1/db?timeout=2"),
        ("--store", "mongodb://u:sesame@127.0.0.1:1/chat?timeout=1"),
        ("--memory", "redis://:sesame@127.0.0.1:1/0?timeout=1"),
    ],
)
def test_no_server_at_all_is_status_3(option: str, url: str) -> None:
    status, found = one_found(option, url)
    assert (status, found["level"]) == (3, "error")
    assert "sesame" not in str(found)


def test_a_pool_that_is_larger_than_the_server_allows_is_noticed(
    current_url: str, admin: Any
) -> None:
    status, found = one_found("--store", f"{current_url}&pool_max=5000")
    assert (status, found["level"]) == (1, "error")
    assert "pool_max is 5000" in found["text"]
    (most,) = admin.execute("SHOW max_connections").fetchone()
    status, found = one_found("--store", f"{current_url}&pool_max={int(most) // 2 + 1}")
    assert (status, found["level"]) == (0, "warning")


def test_an_old_server_is_noticed(
    current_url: str, redis_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, oldest, option, url in (
        (doctor_postgres_checks, 990_000, "--store", current_url),
        (doctor_redis, (99, 0), "--memory", redis_server.url),
    ):
        monkeypatch.setattr(module, "_OLDEST", oldest)
        status, found = one_found(option, url)
        assert (status, "is too old" in found["text"]) == (1, True)


def test_a_server_that_takes_no_writes_is_noticed(current_url: str) -> None:
    url = f"{current_url}&options=-c%20default_transaction_read_only%3Don"
    status, found = one_found("--store", url)
    assert (status, found["level"]) == (1, "error")
    assert "takes no writes" in found["text"]


# Clocks. This machine's is wrong: no server's can be set by a test.


@pytest.mark.parametrize("seconds", [-120, 120])
@pytest.mark.parametrize(
    ("module", "name"),
    [(doctor_postgres, "current_url"), (doctor_mongodb, "new_mongodb_url")],
    ids=["postgres", "mongodb"],
)
def test_a_clock_that_is_wrong_is_noticed(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    seconds: int,
) -> None:
    url = request.getfixturevalue(name)
    MessageStore.initialize(url).close()

    class Wrong:
        time = staticmethod(lambda: time.time() + seconds)

    monkeypatch.setattr(module, "time", Wrong)
    status, found = one_found("--store", url)
    assert (status, found["level"]) == (0, "warning")
    assert f"120 s {'behind' if seconds > 0 else 'ahead of'}" in found["text"]


# MongoDB


def test_a_missing_index_of_a_collection_is_noticed_and_made(new_mongodb_url: str) -> None:
    MessageStore.initialize(new_mongodb_url).close()
    name = new_mongodb_url.rpartition("/")[2]
    messages = mongodb.client(mongodb.url())[name]["messages"]
    messages.drop_index("conversation_id_1_timestamp_1__id_1")
    status, found = one_found("--store", new_mongodb_url)
    assert (status, found["cure"]) == (1, "jazzmine migrate")
    assert "conversation_id_1_timestamp_1__id_1" in found["text"]
    assert run("migrate", "--store", new_mongodb_url).status == 0
    assert diagnosed("--store", new_mongodb_url) == (0, [])


def test_a_standalone_server_is_noticed() -> None:
    server = mongodb.running("--standalone")
    with mongodb.database(server.url) as config:
        url = f"{server.url}/{config['db']}"
        MessageStore.initialize(url).close()
        status, found = one_found("--store", url)
    assert (status, found["level"]) == (0, "warning")
    assert "no transactions" in found["text"]


# Redis


@pytest.fixture
def redis_server() -> Iterator[Server]:
    with Server("--appendonly", "yes") as server:
        yield server


def test_a_redis_without_persistence_is_noticed() -> None:
    with Server() as server:
        server.client.config_set("save", "")
        status, found = one_found("--memory", server.url)
        assert (status, found["level"]) == (1, "error")
        server.client.config_set("save", "60 1000")
        status, found = one_found("--memory", server.url)
        assert (status, found["level"]) == (0, "warning")
        command = found["cure"].partition(",")[0].split()
        server.client.execute_command(*command)
        assert diagnosed("--memory", server.url) == (0, [])


def test_a_redis_that_deletes_what_is_in_use_is_noticed(redis_server: Server) -> None:
    redis_server.client.config_set("maxmemory", "100mb")
    redis_server.client.config_set("maxmemory-policy", "allkeys-lru")
    status, found = one_found("--memory", redis_server.url)
    assert (status, found["level"]) == (0, "warning")
    assert "allkeys-lru" in found["text"]


def test_a_redis_with_a_full_memory_is_noticed(redis_server: Server) -> None:
    redis_server.client.config_set("maxmemory", 1)
    status, found = one_found("--memory", redis_server.url)
    assert (status, found["level"]) == (1, "error")
    assert "memory is full" in found["text"]


def test_a_wrong_password_of_redis_is_noticed_and_not_shown(redis_server: Server) -> None:
    redis_server.client.config_set("requirepass", "sesame")
    ran = run("doctor", "--memory", redis_server.url.replace("://", "://:not-the-password@"))
    redis_server.client.config_set("requirepass", "")
    assert ran.status == 3
    assert "the user or the password" in ran.output
    assert "not-the-password" not in ran.output + ran.errors


def test_a_database_number_that_redis_lacks_is_a_wrong_option(redis_server: Server) -> None:
    status, found = one_found("--memory", f"{redis_server.url.rstrip('0')}9999")
    assert (status, found["level"]) == (1, "error")
    assert "has no database of that number" in found["text"]
    assert found["cure"] == "correct the address or the options"


def test_a_clock_of_redis_that_differs_is_noticed(
    redis_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong:
        time = staticmethod(lambda: time.time() - 300)

    monkeypatch.setattr(doctor_redis, "time", Wrong)
    assert "300 s ahead of" in one_found("--memory", redis_server.url)[1]["text"]


# Working memory and items


def test_no_command_but_migrate_makes_a_working_memory(url: str, tmp_path: Path) -> None:
    mistyped_memory = f"sqlite:{tmp_path / 'mistyped.db'}"
    commands = (
        ["memory", "c1"],
        ["doctor"],
        ["inspect"],
        ["erase", "--user", "u1", "--yes", "--store", url],
        ["migrate", "--dry-run"],
    )
    before = all_records(url)
    for command in commands:
        ran = run(*command, "--memory", mistyped_memory, env={"JAZZMINE_MESSAGE_STORE": url})
        assert ran.status == (0 if command[0] == "migrate" else 1)
        assert re.search(
            "apply 0001|create the file|is not there: no file", ran.output + ran.errors
        )
    assert all_records(url) == before
    assert new_working_memory(working_memory_config(mistyped_memory)).backend.pending()

    assert run("migrate", "--memory", mistyped_memory).output.startswith("done: ")
    assert diagnosed("--memory", mistyped_memory) == (0, [])
    assert run("memory", "c1", "--memory", mistyped_memory).status == 1


def test_a_long_term_memory_is_made_by_migrate_and_then_checked(new_postgres_url: str) -> None:
    url = new_postgres_url
    status, found = diagnosed("--items", url)
    assert status == 1
    assert all(finding["text"].startswith("to do: ") for finding in found)
    assert {finding["store"] for finding in found} == {"long-term memory"}

    assert run("migrate", "--items", url, "--dry-run").output.startswith("would ")
    assert run("migrate", "--items", url).output.startswith("done: ")
    assert diagnosed("--items", url) == (0, [])
