"""Records of jazzmine 0.1.42 that are invalid today are read on every back end."""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pydantic
import pytest

from jazzmine import TraceFilter, TurnTrace
from jazzmine.sync import MessageStore
from tests.servers import mongodb, postgres, predecessor

ROOT = Path(__file__).resolve().parents[2]
BIG, MAX_INT = str(2**70), 2**63 - 1
LONE = "half \ufffd"


@pytest.fixture(scope="module", params=["json", "postgres", "mongodb"])
def old(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, Any], set[str]]]:
    """The configuration of a store with data of 0.1.42, and the ids that 0.1.42 could store."""
    with ExitStack() as stack:
        config: dict[str, Any] = {"storage": request.param}
        if request.param == "json":
            config["path"] = str(tmp_path_factory.mktemp("old") / "messages.json")
        elif request.param == "mongodb":
            config = stack.enter_context(mongodb.database())
        else:
            schema = stack.enter_context(postgres.new_schema())
            config |= {"dsn": postgres.dsn(), "schema": schema}
        yield config, fill(config)


def fill(config: dict[str, Any]) -> set[str]:
    if "schema" in config:
        schema = config["schema"]
        with postgres.connect(config["dsn"]) as connection:
            connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
        config = {"storage": "postgres", "dsn": f"{config['dsn']}?search_path={schema}"}
    predecessor.make(pydantic.VERSION)
    python = predecessor.PYTHON
    command = [str(python), "-m", "tests.backends.predecessor_dirty"]
    command += [str(predecessor.SOURCE), json.dumps(config)]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return set(json.loads(said.stdout))


@pytest.fixture
def store(old: tuple[dict[str, Any], set[str]]) -> Iterator[MessageStore]:
    with MessageStore.initialize(old[0]) as opened:
        yield opened


@pytest.fixture
def stored(old: tuple[dict[str, Any], set[str]]) -> set[str]:
    return old[1]


@pytest.fixture
def traces(store: MessageStore) -> dict[str, TurnTrace]:
    found = store.get_turn_traces_by_conversation_id("c")
    return {trace.id.removeprefix("t "): trace for trace in found}


def test_every_record_that_was_stored_is_listed(store: MessageStore, stored: set[str]) -> None:
    conversations = [
        *store.get_conversations_by_user_id("u"),
        *store.get_conversations_by_user_id("unknown"),
    ]
    messages = store.get_messages_by_conversation_id("c")
    traces = store.get_turn_traces_by_conversation_id("c")

    listed = [one.id for listing in (conversations, messages, traces) for one in listing]
    assert sorted(listed) == sorted(stored - {"", "t of empty"})
    assert list(store.iter_messages("c", batch_size=3)) == messages
    assert store.get_immediate_context("c", 100) == messages
    assert store.get_messages_by_ids([m.id for m in messages]) == messages
    assert [store.get_message_by_id(m.id) for m in messages] == messages
    assert [store.get_turn_trace_by_id(t.id) for t in traces] == traces
    assert [store.get_turn_trace_by_message_id(t.message_id) for t in traces] == traces
    assert [store.get_conversation_by_id(c.id) for c in conversations] == conversations


def test_an_empty_id_is_unknown_and_can_be_looked_up(store: MessageStore) -> None:
    assert [c.id for c in store.get_conversations_by_user_id("unknown")] == ["empty user"]
    assert [c.id for c in store.get_conversations_by_agent_id("unknown")] == ["empty agent"]
    assert [m.id for m in store.get_messages_by_user_id("unknown")] == ["m empty user"]
    assert [t.id for t in store.get_turn_traces_by_agent_id("unknown")] == ["t empty agent"]
    found = store.find_turn_traces(TraceFilter(user_id="unknown"))
    assert [t.id for t in found] == ["t empty agent"]
    assert found[0].agent_id == "unknown"


def test_records_that_refer_to_an_empty_id_still_do(store: MessageStore) -> None:
    (conversation,) = store.get_conversations_by_user_id("v")
    (message,) = store.get_messages_by_conversation_id("unknown")
    (trace,) = store.get_turn_traces_by_conversation_id("unknown")

    assert conversation == store.get_conversation_by_id("unknown")
    assert message == store.get_message_by_id("unknown")
    assert trace == store.get_turn_trace_by_message_id("unknown")
    assert (message.id, message.conversation_id, trace.message_id) == ("unknown",) * 3
    assert store.get_messages_by_conversation_id("unknown", limit=2) == [message]
    assert store.get_messages_by_user_id("v", after="unknown") == []
    assert store.get_messages_by_ids(["fine", "unknown"])[1:] == [message]
    assert list(store.iter_messages("unknown")) == [message]


def test_nan_and_infinity_are_null_or_the_default(
    traces: dict[str, TurnTrace], stored: set[str]
) -> None:
    trace = traces["nan energy"]
    assert (trace.total_energy_kwh, trace.total_co2_g, trace.sentiment_score) == (0.0, 0.0, 0.0)
    if "t nan data" in stored:
        assert traces["nan data"].tool_traces[0].final_data == {"a": [None, None, 1.5]}
    if "t nan emission" in stored:
        emission = traces["nan emission"].emission_records[0]
        assert (emission.energy_kwh, emission.metadata) == (0.0, {"n": None})


def test_a_large_integer_is_its_text_or_the_nearest_that_a_number_can_be(
    store: MessageStore, traces: dict[str, TurnTrace], stored: set[str]
) -> None:
    if "t big data" in stored:
        assert traces["big data"].tool_traces[0].final_data == {"a": [BIG, f"-{BIG}"]}
        tool = traces["big memory"].tool_traces[0]
        assert (tool.peak_memory_bytes, tool.output_bytes) == (MAX_INT, MAX_INT)
        call = traces["big latency"].llm_calls[0]
        assert (call.latency_ms, call.total_tokens) == (MAX_INT, -MAX_INT - 1)
    if "m big time" in stored:
        message = store.get_message_by_id("m big time")
        assert message is not None
        assert message.timestamp == MAX_INT
        assert store.get_messages_by_conversation_id("c")[-1] == message


def test_a_character_that_no_text_can_contain_is_replaced(
    store: MessageStore, traces: dict[str, TurnTrace], stored: set[str]
) -> None:
    if "t zero key" in stored:
        found = traces["zero key"].tool_traces[0].intermediates
        assert found == [{"a\ufffdb": {"\ufffd": 1}}]
    if "t lone names" in stored:
        trace = traces["lone names"]
        assert trace.detected_entities == trace.errors == [trace.detected_intent] == [LONE]
        message = store.get_message_by_id("m lone text")
        assert message is not None
        assert [message.original_content] == message.explicit_context == message.errors == [LONE]


def test_data_that_is_nested_too_deeply_is_json_text(traces: dict[str, TurnTrace]) -> None:
    value: Any = traces["deep data"].tool_traces[0].api_calls[0]["deep"]
    for _ in range(63):
        (value,) = value

    assert json.loads(value) == [[[[[[["deep"]]]]]]]


def test_the_sums_leave_out_values_that_are_no_numbers(store: MessageStore) -> None:
    where = TraceFilter(conversation_id="c")

    (sums,) = store.summarize_usage(where, by="conversation")

    assert (sums.total_energy_kwh, sums.total_co2_g) == (0.0, 0.0)


def test_the_calls_of_models_are_summed_up_with_the_replacements_of_large_integers(
    store: MessageStore, stored: set[str]
) -> None:
    sums = store.summarize_usage(TraceFilter(conversation_id="c"), by="model")

    largest = [one.max_latency_ms for one in sums]
    assert largest == ([MAX_INT] if "t big latency" in stored else [])


@pytest.mark.parametrize("by", ["conversation", "model"])
def test_what_calls_did_not_have_yet_is_summed_up_as_zero(store: MessageStore, by: Any) -> None:
    for one in store.summarize_usage(TraceFilter(conversation_id="c"), by=by):
        assert one.cached_prompt_tokens == one.cache_write_tokens == one.reasoning_tokens == 0
        assert one.cost_usd == 0.0


def test_each_replacement_is_logged_once_with_its_record_and_field(
    old: tuple[dict[str, Any], set[str]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), MessageStore.initialize(old[0]) as store:
        for _ in range(3):
            store.get_turn_traces_by_conversation_id("c")

    lines = [r.getMessage() for r in caplog.records if "'t nan energy'" in r.getMessage()]
    fields = ("total_energy_kwh", "total_co2_g", "sentiment_score")
    assert [sum(field in line for line in lines) for field in fields] == [1, 1, 1]


def test_a_record_with_replacements_is_stored_again_as_it_was_read(store: MessageStore) -> None:
    messages = store.get_messages_by_conversation_id("c")
    traces = store.get_turn_traces_by_conversation_id("c")

    store.store_messages(messages)
    for trace in traces:
        store.store_turn_trace(trace)

    assert store.get_messages_by_conversation_id("c") == messages
    assert store.get_turn_traces_by_conversation_id("c") == traces


def test_a_record_with_an_empty_id_is_replaced_and_deleted(store: MessageStore) -> None:
    (message,) = store.get_messages_by_conversation_id("unknown")

    store.store_message(message)
    assert store.get_messages_by_user_id("v") == [message]
    assert store.flag_message("unknown")
    assert store.get_immediate_context("unknown", 1) == []
    assert store.delete_conversation("unknown")
    assert store.get_messages_by_user_id("v") == []
    assert store.get_turn_trace_by_id("t of empty") is None


def test_adopting_tables_logs_which_records_had_an_empty_id(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with postgres.new_schema() as schema:
        config = {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema}
        fill(config)
        with caplog.at_level(logging.WARNING):
            MessageStore.initialize(config).close()

    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 10
    assert any("user_id" in line and "'empty user'" in line for line in lines)
    assert any("user_id" in line and "'m empty user'" in line for line in lines)
    assert any("agent_id" in line and "'t empty agent'" in line for line in lines)


def test_an_empty_id_stays_where_unknown_is_another_record() -> None:
    with postgres.new_schema() as schema:
        config = {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema}
        fill(config)
        with postgres.connect(postgres.dsn()) as connection:
            connection.execute(
                f"""INSERT INTO "{schema}".conversations
                    VALUES ('unknown', 'v', 'a', 't', 1, 1)""".encode()
            )
        with MessageStore.initialize(config) as store:
            listed = store.get_conversations_by_user_id("v")
            assert [conversation.id for conversation in listed] == ["unknown", "unknown"]
            assert store.get_messages_by_conversation_id("unknown") == []
            assert [message.id for message in store.get_messages_by_user_id("v")] == ["unknown"]
