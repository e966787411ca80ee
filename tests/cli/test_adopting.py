"""`adopt`: what jazzmine 0.1.42 has stored by its own code comes into a store of this version."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pydantic
import pytest

from jazzmine.errors import ConfigurationError
from jazzmine.sync import MessageStore
from tests.cli.program import run
from tests.servers import mongodb, postgres, predecessor

ROOT = Path(__file__).resolve().parents[2]
BIG, MAX_INT = str(2**70), 2**63 - 1
LONE = "half \ufffd"


class Old:
    """A place with data of 0.1.42: its URL, its configuration, and the ids that are stored."""

    def __init__(self, url: str, config: dict[str, Any]) -> None:
        self.url = url
        predecessor.make(pydantic.VERSION)
        python = predecessor.PYTHON
        command = [str(python), "-m", "tests.cli.predecessor"]
        command += [str(predecessor.SOURCE), json.dumps(config)]
        said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        self.ids: list[str] = json.loads(said.stdout)


@pytest.fixture(scope="module", params=["json", "postgres", "mongodb"])
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Old]:
    with ExitStack() as stack:
        if request.param == "json":
            path = str(tmp_path_factory.mktemp("old") / "messages.json")
            yield Old(f"json:{path}", {"storage": "json", "path": path})
        elif request.param == "mongodb":
            config = stack.enter_context(mongodb.database())
            yield Old(f"{config['uri']}/{config['db']}", config)
        else:
            schema = stack.enter_context(postgres.new_schema())
            with postgres.connect(postgres.dsn()) as connection:
                connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
            dsn = postgres.dsn()
            sign = "&" if "?" in dsn else "?"
            config = {"storage": "postgres", "dsn": f"{dsn}{sign}search_path={schema}"}
            yield Old(f"{dsn}{sign}schema={schema}", config)


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'new.db'}"


@pytest.fixture
def store(old: Old, target: str) -> Iterator[MessageStore]:
    run("adopt", old.url, target)
    with MessageStore.initialize(target) as opened:
        yield opened


def test_every_record_is_adopted_in_its_order_and_counted(
    old: Old, target: str, store: MessageStore
) -> None:
    conversations = store.get_conversations()
    messages = [
        message
        for conversation in conversations
        for message in store.get_messages_by_conversation_id(conversation.id)
    ]
    traces = [store.get_turn_trace_by_message_id(message.id) for message in messages]

    adopted = [one.id for records in (conversations, messages, traces) for one in records if one]
    assert sorted(adopted) == sorted(one or "unknown" for one in old.ids)
    fine = [message.id for message in messages if message.id.startswith("owner of")]
    assert fine == [f"owner of {number}" for number in range(13)]
    said = run("adopt", old.url, target)
    assert said.status == 0
    assert f"stored {0:>10,}   there before {len(conversations):>10,}" in said.output


def test_what_the_application_has_changed_since_stays(
    old: Old, target: str, store: MessageStore
) -> None:
    store.edit_conversation("c", title="changed since")

    assert run("adopt", old.url, target).status == 0

    found = store.get_conversation_by_id("c")
    assert found is not None
    assert found.title == "changed since"


def test_an_empty_id_is_unknown_and_so_are_references_to_it(store: MessageStore) -> None:
    (message,) = store.get_messages_by_conversation_id("unknown")
    trace = store.get_turn_trace_by_message_id("unknown")

    assert trace is not None
    assert (message.id, trace.conversation_id) == ("unknown", "unknown")
    assert [c.id for c in store.get_conversations_by_agent_id("unknown")] == ["empty agent"]
    assert [t.id for t in store.get_turn_traces_by_agent_id("unknown")] == ["t empty agent"]


def test_what_a_record_cannot_hold_is_replaced(old: Old, store: MessageStore) -> None:
    traces = {one.id: one for one in store.get_turn_traces_by_conversation_id("c")}
    energy = traces["t nan energy"]
    assert (energy.total_energy_kwh, energy.total_co2_g, energy.sentiment_score) == (0.0, 0.0, 0.0)
    assert traces["t reference"].tool_traces[0].final_data == {"$ref": "a", "$id": "b"}
    (value,) = [traces["t deep data"].tool_traces[0].api_calls[0]["deep"]]
    for _ in range(63):
        (value,) = value
    assert json.loads(value) == [[[[[[["deep"]]]]]]]
    if "t nan data" in old.ids:
        assert traces["t nan data"].tool_traces[0].final_data == {"a": [None, None, 1.5]}
    if "t big data" in old.ids:
        assert traces["t big data"].tool_traces[0].final_data == {"a": [BIG, f"-{BIG}"]}
        assert traces["t big memory"].tool_traces[0].peak_memory_bytes == MAX_INT
    if "t zero key" in old.ids:
        found = traces["t zero key"].tool_traces[0].intermediates
        assert found == [{"a\ufffdb": {"\ufffd": 1}}]
    if "t lone names" in old.ids:
        assert traces["t lone names"].detected_entities == [LONE]


def test_a_table_says_what_was_replaced_and_the_old_data_stay(old: Old, tmp_path: Path) -> None:
    first = run("adopt", old.url, f"sqlite:{tmp_path / 'a.db'}")
    again = run("adopt", old.url, f"sqlite:{tmp_path / 'b.db'}")

    assert "replaced in 1 traces: total_energy_kwh (first: 't nan energy')" in first.output
    assert "replaced in 1 conversations: user_id (first: 'empty user')" in first.output
    assert again.output == first.output


@pytest.mark.parametrize("old", ["postgres", "mongodb"], indirect=True)
def test_opening_a_store_on_the_old_data_names_the_command(old: Old) -> None:
    with pytest.raises(ConfigurationError, match="jazzmine adopt"):
        MessageStore.initialize(old.url)


def test_a_record_without_what_it_refers_to_is_left_out_and_named(
    tmp_path: Path, target: str
) -> None:
    message = {
        "id": "m", "conversation_id": "gone", "user_id": "u", "role": "user",
        "original_content": "x", "timestamp": 1,
    }  # fmt: skip
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"messages": [message, {"id": "none"}]}))

    said = run("adopt", f"json:{path}", target)

    assert said.status == 1
    assert "'m': what it belongs to is not stored" in said.output
    assert "'none': cannot be read: " in said.output


@pytest.mark.parametrize("source", ["url", "new_postgres_url", "new_mongodb_url"])
def test_a_store_of_this_version_is_refused(
    source: str, target: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(source)
    MessageStore.initialize(url).close()

    said = run("adopt", url, target)

    assert said.status == 1
    assert "jazzmine copy" in said.errors


def test_a_source_that_0_1_42_cannot_have_stored_is_refused(target: str) -> None:
    assert "are the same place" in run("adopt", "json:a.json", "json:a.json").errors
    assert "in JSON, PostgreSQL and MongoDB alone" in run("adopt", "sqlite:a.db", target).errors


@pytest.mark.parametrize("content", [b"", b'{"messages": [', b'{"messages": ["\xe9"]}'])
def test_a_file_that_is_not_json_is_named(tmp_path: Path, target: str, content: bytes) -> None:
    path = tmp_path / "old.json"
    path.write_bytes(content)

    said = run("adopt", f"json:{path}", target)

    assert said.status == 1
    assert f"{path} is not JSON: " in said.errors


def test_a_source_that_cannot_be_read_is_refused_without_its_password(target: str) -> None:
    said = run("adopt", "postgresql://u:s3cr3t@127.0.0.1:1/db", target)

    assert said.status == 3
    assert "PostgreSQL at 127.0.0.1:1: connection failed" in said.errors
    assert "s3cr3t" not in said.errors


def test_a_source_without_any_record_is_refused(target: str, tmp_path: Path) -> None:
    other = tmp_path / "settings.json"
    other.write_text('{"colour": "red"}')

    said = run("adopt", f"json:{other}", target)

    assert said.status == 1
    assert "no records" in said.errors
