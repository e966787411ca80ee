"""Each read of an SQLite store uses an index, and none sorts what an index has in order."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from jazzmine import TraceFilter
from jazzmine.sync.message_store import MessageStore
from tests.backends.sqlite_stores import opened
from tests.behaviour.samples import conversation, message, trace

Plans: TypeAlias = Callable[[Callable[[MessageStore], object]], list[str]]


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plans]:
    """Return a function that makes a call, and returns the plans of its statements."""
    path, statements = tmp_path / "agent.db", list[str]()
    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)

    def plans_of(call: Callable[[MessageStore], object]) -> list[str]:
        statements.clear()
        call(store)
        own = [sql for sql in statements if "stored_" in sql and not sql.startswith("--")]
        with closing(connect(path)) as connection:
            connection.create_function("jazzmine_contains", 3, lambda *_: True)
            connection.create_function("jazzmine_any_contains", 3, lambda *_: True)
            connection.create_function("jazzmine_forked_id", 2, lambda *_: "copy")
            explained = [connection.execute(f"EXPLAIN QUERY PLAN {sql}") for sql in own]
            return ["\n".join(row[3] for row in rows) for rows in explained]

    with opened(path) as store:
        store.store_turn(
            conversation=conversation("c1"), messages=[message("m1")], trace=trace("m1")
        )
        store.store_message(message("m2"))
        yield plans_of


@pytest.mark.parametrize(
    ("call", "index"),
    [
        (lambda s: s.get_conversations_by_user_id("u1", limit=5), "idx_conv_user"),
        (lambda s: s.get_conversations_by_user_id("u1", after="c1"), "idx_conv_user"),
        (lambda s: s.get_conversations_by_user_id("u1", where={"k": 1}), "idx_conv_user"),
        (lambda s: s.get_conversations_by_agent_id("a1", limit=5), "idx_conv_agent"),
        (lambda s: s.get_conversations_by_agent_id("a1", after="c1"), "idx_conv_agent"),
        (lambda s: s.get_conversations(after="c1"), "idx_conv_updated"),
        (lambda s: s.get_messages_by_conversation_id("c1", limit=5), "idx_msg_conv"),
        (lambda s: s.get_messages_by_conversation_id("c1", after="m1"), "idx_msg_conv"),
        (lambda s: s.get_messages_by_conversation_id("c1", order="newest"), "idx_msg_conv"),
        (lambda s: s.get_messages_by_user_id("u1", limit=5), "idx_msg_user"),
        (lambda s: s.get_messages_by_user_id("u1", after="m1"), "idx_msg_user"),
        (lambda s: s.get_immediate_context("c1", 5), "idx_msg_conv"),
        (lambda s: s.get_context_window("c1", max_tokens=9, after="m1"), "idx_msg_conv"),
        (lambda s: list(s.iter_messages("c1")), "idx_msg_conv"),
        (lambda s: s.count_messages(["c1"]), "idx_msg_conv"),
        (lambda s: s.get_turn_traces_by_conversation_id("c1"), "idx_tt_conv"),
        (lambda s: s.get_turn_trace_by_message_id("m1"), "(message_id=?)"),
        (lambda s: s.get_message_by_id("m1"), "(id=?)"),
        (lambda s: s.get_messages_by_ids(["m1", "m2", "m3"]), "(id=?)"),
        (lambda s: s.append_messages("c1", [message("m3")]), "idx_msg_conv"),
        (lambda s: s.pop_message("c1"), "idx_msg_conv"),
        (lambda s: s.rewind_conversation("c1", after="m1"), "idx_msg_conv"),
        (lambda s: s.delete_conversation("c1"), "(id=?)"),
        (lambda s: s.erase_user("u1"), "idx_tt_user"),
        (lambda s: s.erase_user("u1"), "idx_msg_user"),
        (lambda s: s.erase_user("u1"), "idx_conv_user"),
    ],
)
def test_a_call_searches_an_index_in_its_order(
    plans: Plans, call: Callable[[MessageStore], object], index: str
) -> None:
    found = plans(call)

    assert any(index in plan for plan in found)
    assert not [
        plan for plan in found if re.search("TEMP B-TREE|SCAN (?!CONSTANT|message_numbers)", plan)
    ]


def test_the_conversations_to_prune_are_chosen_in_the_order_of_an_index(plans: Plans) -> None:
    plan, *_ = plans(lambda store: store.prune_conversations(before=2**60))

    assert "SEARCH old USING COVERING INDEX idx_conv_updated" in plan
    assert "SEARCH stored_messages USING COVERING INDEX idx_msg_conv" in plan
    assert "SCAN" not in plan


def test_the_first_page_of_all_conversations_is_read_in_the_order_of_an_index(
    plans: Plans,
) -> None:
    [plan] = plans(lambda store: store.get_conversations(limit=5))

    assert plan == "SCAN stored_conversations USING INDEX idx_conv_updated"


@pytest.mark.parametrize(
    ("where", "index"),
    [
        (TraceFilter(agent_id="a1"), "idx_tt_agent_time (agent_id=?)"),
        (TraceFilter(user_id="u1"), "idx_tt_user (user_id=?)"),
        (TraceFilter(intent="x"), "idx_tt_intent (detected_intent=?)"),
        (TraceFilter(conversation_id="c1"), "idx_tt_conv (conversation_id=?)"),
        (TraceFilter(agent_id="a1", started_from=1), "(agent_id=? AND started_at_ms>?)"),
        (TraceFilter(started_from=1, started_until=2), "(started_at_ms>? AND started_at_ms<?)"),
        (TraceFilter(has_errors=True), "idx_tt_failed"),
        (TraceFilter(agent_id="a1", has_errors=True), "idx_tt_agent_failed (agent_id=?)"),
        (TraceFilter(user_id="u1", has_errors=True), "idx_tt_user (user_id=?)"),
        (TraceFilter(), "idx_tt_time"),
        (TraceFilter(min_total_tokens=5), "idx_tt_time"),
        (TraceFilter(min_latency_ms=5), "idx_tt_time"),
        (TraceFilter(tool={"success": False}), "idx_tt_time"),
        (TraceFilter(agent_id="a1", llm_call={"model": "m"}), "idx_tt_agent_time (agent_id=?)"),
    ],
)
def test_traces_are_found_on_an_index(plans: Plans, where: TraceFilter, index: str) -> None:
    [plan] = plans(lambda store: store.find_turn_traces(where, limit=10))

    assert index in plan
    if where.conversation_id is None:
        assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("by", ["agent", "user", "conversation", "intent", "model", "day"])
def test_sums_read_the_traces_that_match_alone(plans: Plans, by: Any) -> None:
    where = TraceFilter(agent_id="a1", started_from=1)

    [plan] = plans(lambda store: store.summarize_usage(where, by=by))

    assert "idx_tt_agent_time (agent_id=? AND started_at_ms>?)" in plan
