"""The commands that show what is stored."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jazzmine import Conversation, Message, TurnRecorder, TurnTrace
from jazzmine.core.message_store import UsageSummary
from jazzmine.sync import MessageStore, WorkingMemoryStore
from jazzmine.sync.working_memory import ActiveFlowState, PendingConfirmation, ToolCallRecord
from tests.behaviour.samples import NOW, conversation, full_trace, message, tool_trace, trace
from tests.cli.conftest import ESCAPES
from tests.cli.program import objects, run
from tests.servers import redis_configs


def cells(output: str) -> list[list[str]]:
    """Return the rows of a table, without the names of its columns."""
    return [line.split("\t") for line in output.splitlines()[1:]]


# ls


def test_conversations_are_listed_newest_first(url: str) -> None:
    ran = run("ls", "--store", url)
    assert [row[1] for row in cells(ran.output)] == ["c3", "c2", "c1"]
    assert cells(ran.output)[0][0] == "2023-11-14 22:13:20Z"
    assert ran.status == 0


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--user", "u2"], ["c3"]),
        (["--agent", "a1"], ["c3", "c1"]),
        (["--agent", "a1", "--user", "u1"], ["c1"]),
        (["--limit", "1"], ["c3"]),
        (["--after", "c3"], ["c2", "c1"]),
        (["--user", "nobody"], []),
    ],
)
def test_a_listing_may_be_narrowed(url: str, options: list[str], found: list[str]) -> None:
    ran = run("ls", "--store", url, *options)
    assert [row[1] for row in cells(ran.output)] == found
    assert ran.errors == (
        "more than 1: these are the first (--limit)\n" if options[1] == "1" else ""
    )


# Naming the store


def test_the_store_may_stand_before_the_command_or_in_the_environment(url: str) -> None:
    after = run("ls", "--store", url)
    assert run("--store", url, "ls") == after
    assert run("ls", env={"JAZZMINE_MESSAGE_STORE": url}) == after
    assert run("--store", "json:/nowhere", "ls", "--store", url) == after


@pytest.mark.parametrize(
    "arguments", [["ls"], ["show", "c1"], ["context", "c1"], ["traces"], ["usage"]]
)
def test_a_mistyped_path_makes_no_store(tmp_path: Path, arguments: list[str]) -> None:
    ran = run(*arguments, "--store", f"json:{tmp_path / 'mistyped.json'}")
    assert ran.status == 1
    assert f"is not there: no file {tmp_path / 'mistyped.json'}" in ran.errors
    assert "would" not in ran.errors
    assert os.listdir(tmp_path) == []


def test_a_store_that_is_old_is_not_said_to_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "messages.db"
    WorkingMemoryStore.initialize(f"sqlite:{path}").close()
    ran = run("ls", "--store", f"sqlite:{path}")
    assert ran.status == 1
    assert "has no tables yet, or old ones" in ran.errors
    assert "apply 0001" in ran.errors


@pytest.mark.parametrize("name", ["new_postgres_url", "new_mongodb_url"])
def test_a_mistyped_database_makes_no_store(request: pytest.FixtureRequest, name: str) -> None:
    url = request.getfixturevalue(name)
    first, again = run("ls", "--store", url), run("ls", "--store", url)
    assert first.status == 1
    assert "jazzmine migrate" in first.errors
    assert again == first


# show and context


def test_a_conversation_is_shown_with_its_messages(url: str) -> None:
    ran = run("show", "c1", "--store", url, "--traces")
    for text in ("user u1", "hello", "    there", "an answer", "flagged", "it failed"):
        assert text in ran.output
    assert ran.output.index("hello") < ran.output.index("an answer")


def test_the_calls_of_a_turn_are_shown_with_what_went_in_and_out(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    recorder = TurnRecorder(conversation_id="c1", user_id="u1", agent_id="a1", turn_number=1)
    recorder.user("Where is order 4711?")
    with recorder.model_call("small-1", input=[{"role": "user", "content": "asked"}]) as model:
        model.usage(prompt_tokens=9, completion_tokens=2, cost_usd=0.25)
        model.output("find it")
    with recorder.tool_call("find_order", {"order_id": 4117}) as tool:
        tool.result("delivered")
    recorder.assistant("It was delivered.")
    with MessageStore.initialize(path) as store:
        store.store_conversation(Conversation(id="c1", user_id="u1", agent_id="a1"))
        store.append_messages("c1", recorder.messages, trace=recorder.trace)
    shown = run("show", "c1", "--traces", "--store", f"sqlite:{path}").output
    for text in ("small-1: ", "11 tokens, 0.25 USD", "find_order: ", "order_id: 4117"):
        assert text in shown
    assert "result: delivered" in shown
    assert "asked" not in shown
    full = run("show", "c1", "--traces", "--full", "--store", f"sqlite:{path}").output
    assert "content: asked" in full
    assert "output: find it" in full


def test_the_newest_messages_alone_are_shown(url: str) -> None:
    found = objects(run("show", "c1", "--last", "2", "--json", "--store", url).output)
    assert [one["id"] for one in found] == ["c1", "x", "a"]


def test_json_of_a_conversation_holds_every_record(url: str) -> None:
    first, *others = objects(run("show", "c1", "--traces", "--json", "--store", url).output)
    assert Conversation.model_validate(first).id == "c1"
    kinds = [TurnTrace if "message_id" in one else Message for one in others]
    assert [kind.model_validate(one).id for kind, one in zip(kinds, others, strict=True)] == [
        "z", "y", "trace-of-y", "x", "a", "trace-of-a"
    ]  # fmt: skip


def test_the_context_leaves_out_flagged_messages(url: str) -> None:
    found = objects(run("context", "c1", "-n", "2", "--json", "--store", url).output)
    assert [one["id"] for one in found] == ["x", "a"]
    shown = run("context", "c1", "--store", url).output
    assert "hello" in shown
    assert "an answer" not in shown


def test_the_context_may_be_limited_by_tokens(url: str) -> None:
    found = objects(run("context", "c1", "--max-tokens", "19", "--json", "--store", url).output)
    assert [one["id"] for one in found] == ["x", "a"]  # 11 and 8 tokens
    fewer = objects(run("context", "c1", "--max-tokens", "18", "--json", "--store", url).output)
    assert [one["id"] for one in fewer] == ["a"]
    assert run("context", "c1", "--max-tokens", "9", "-n", "2", "--store", url).status == 2


@pytest.mark.parametrize("command", ["show", "context"])
def test_an_unknown_conversation_is_status_1(url: str, command: str) -> None:
    ran = run(command, "unknown", "--store", url)
    assert ran.status == 1
    assert "'unknown'" in ran.errors
    assert ran.output == ""


# Escapes


@pytest.mark.parametrize(
    "arguments",
    [["ls"], ["show", "c1"], ["context", "c1"], ["show", "c1", "--json"], ["ls", "--json"]],
)
def test_escapes_in_stored_text_are_shown_and_not_obeyed(url: str, arguments: list[str]) -> None:
    ran = run(*arguments, "--store", url)
    assert not set(ran.output) & set("\x1b\x07\x9b\u202e")
    assert "\\x1b[31malert" in ran.output or "\\u001b[31malert" in ran.output


def test_escapes_in_a_trace_are_shown_and_not_obeyed(url: str) -> None:
    with MessageStore.initialize(url) as store:
        store.store_turn_trace(full_trace("x", ESCAPES))
    for command in (["traces"], ["traces", "x", "--full"], ["show", "c1", "--traces", "--full"]):
        assert not set(run(*command, "--store", url).output) & set("\x1b\x07\x9b\u202e")


def test_escapes_in_an_argument_are_not_obeyed(url: str) -> None:
    assert "\x1b" not in run("show", "\x1b[31mred", "--store", url).errors


# traces and usage


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ([], ["trace-of-a", "trace-of-in-c2", "trace-of-y"]),
        (["--agent", "a2"], ["trace-of-in-c2"]),
        (["--errors"], ["trace-of-y"]),
        (["--no-errors", "--min-tokens", "40"], ["trace-of-a"]),
        (["--intent", "ask"], ["trace-of-a"]),
        (["--since", str(NOW + 1)], []),
        (["--until", "2023-11-14"], []),
        (["--since", "2023-11-14T23:13:20+01:00", "--limit", "1"], ["trace-of-a"]),
        (["--after", "trace-of-in-c2"], ["trace-of-y"]),
        (["--llm-call", '{"total_tokens": 7}'], ["trace-of-in-c2"]),
        (["--conversation", "c2"], ["trace-of-in-c2"]),
    ],
)
def test_traces_are_filtered(url: str, options: list[str], found: list[str]) -> None:
    listed = objects(run("traces", "--json", "--store", url, *options).output)
    assert [TurnTrace.model_validate(one).id for one in listed] == found
    ran = run("traces", "--store", url, *options)
    assert [row[1] for row in cells(ran.output)] == found
    assert (ran.errors == "more than 1: these are the first (--limit)\n") == ("--limit" in options)


@pytest.mark.parametrize(
    "options",
    [["--since", "yesterday"], ["--tool", "{"], ["--tool", "[]"], ["--tool", '{"unknown": 1}']],
)
def test_a_filter_that_cannot_be_read_is_a_wrong_usage(url: str, options: list[str]) -> None:
    ran = run("traces", "--store", url, *options)
    assert ran.status == 2
    assert "Traceback" not in ran.errors
    assert "pydantic" not in ran.errors


@pytest.mark.parametrize("given", ["trace-of-y", "y", "trace-of-y…"])
def test_one_turn_is_shown_by_its_id_or_that_of_its_message(url: str, given: str) -> None:
    (found,) = objects(run("traces", given, "--json", "--store", url).output)
    assert TurnTrace.model_validate(found).id == "trace-of-y"
    turn = run("traces", given, "--store", url).output
    assert "trace-of-y  c1" in turn
    assert "error: it failed" in turn
    assert "python: look up the trains: " in turn


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["trace-of-"], 1, "3 ids begin like 'trace-of-'"),
        (["tra"], 1, "there is no trace 'tra'"),
        (["unknown"], 1, "there is no trace 'unknown'"),
        (["y", "--errors"], 2, "give an ID, or filters"),
    ],
)
def test_a_turn_that_is_not_one_is_refused(
    url: str, arguments: list[str], status: int, said: str
) -> None:
    ran = run("traces", *arguments, "--store", url)
    assert (ran.status, ran.output) == (status, "")
    assert said in " ".join(ran.errors.split())


def test_traces_say_why_a_turn_failed_and_no_number_where_there_is_none(
    path: str, tmp_path: Path
) -> None:
    url, page = f"json:{path}", tmp_path / "page.html"
    failed = tool_trace(tool_name="find_order", success=False, error="no such\norder")
    with MessageStore.initialize(url) as store:
        store.store_turn_trace(trace("x", turn_number=0, tool_traces=[failed]))
    rows = {row[1]: row for row in cells(run("traces", "--store", url).output)}
    assert rows["trace-of-y"][-1] == "it failed"
    assert (rows["trace-of-a"][3], rows["trace-of-a"][-1]) == ("4", "")
    assert (rows["trace-of-x"][3], rows["trace-of-x"][-1]) == ("", "no such\\norder")
    assert "turn, 250 ms" in run("show", "c1", "--traces", "--store", url).output
    run("export", "c1", "--html", str(page), "--store", url)
    assert "turn, 250 ms" in page.read_text()
    for tool in ("find_order", '{"tool_name": "find_order"}'):
        (found,) = cells(run("traces", "--tool", tool, "--store", url).output)
        assert found[1] == "trace-of-x"


def test_a_conversation_is_found_by_the_beginning_of_its_id(path: str) -> None:
    url, name = f"json:{path}", "6f1c2a34-aaaa-bbbb-cccc-123456789abc"
    with MessageStore.initialize(url) as store:
        store.store_conversation(conversation(name))
        store.store_conversation(conversation("6f1c9999"))
        store.store_message(message("last", conversation_id=name))
    for given in (name, "6f1c2", "6f1c2a…"):
        first, last = objects(run("show", given, "--json", "--store", url).output)
        assert (first["id"], last["id"]) == (name, "last")
        (only,) = objects(run("context", given, "--json", "--store", url).output)
        assert only["id"] == "last"
        assert '"last"' in run("export", given, "--store", url).output
    ran = run("show", "6f1c", "--store", url)
    assert (ran.status, ran.output) == (1, "")
    assert "2 ids begin like '6f1c'" in ran.errors
    assert run("rm", "6f1c2", "--yes", "--store", url).status == 1  # what deletes wants it whole


def test_usage_is_summed_up_by_a_group(url: str) -> None:
    rows = cells(run("usage", "--by", "agent", "--store", url).output)
    assert [row[:3] for row in rows] == [["a1", "2", "1"], ["a2", "1", "0"]]
    (model,) = objects(
        run("usage", "--by", "model", "--agent", "a2", "--json", "--store", url).output
    )
    assert (model["key"], model["total_tokens"]) == ("small", 7)
    assert set(model) == set(UsageSummary.model_fields)
    by_model = run("usage", "--by", "model", "--store", url).output.splitlines()
    assert by_model[0].startswith("model\tprompt\t")  # its sums are of calls, not of turns
    assert run("usage", "--by", "weather", "--store", url).status == 2


def test_usage_shows_cached_tokens_and_costs_where_there_are_any(url: str) -> None:
    with_costs = run("usage", "--agent", "a1", "--store", url).output.splitlines()
    assert [line.split("\t")[-2:] for line in with_costs] == [["cached", "USD"], ["60", "≥ 0.0125"]]
    without = run("usage", "--agent", "a2", "--store", url).output.splitlines()
    assert without[0].endswith("p95 ms")


def test_a_turn_is_shown_with_what_it_cost_where_that_is_known(url: str, tmp_path: Path) -> None:
    with_cost = run("show", "c1", "--traces", "--store", url).output
    without = run("show", "c2", "--traces", "--store", url).output
    assert "2 tools, ≥ 0.0125 USD" in with_cost
    assert "1 model call, 0 tools\n" in without
    page = tmp_path / "page.html"
    run("export", "c1", "--html", str(page), "--store", url)
    assert "2 tools, ≥ 0.0125 USD" in page.read_text()


# memory


def test_working_memory_is_shown() -> None:
    with redis_configs.alone() as config:
        with WorkingMemoryStore.initialize(config) as store:
            store.get_or_create("c1", "u1\x1b[2J", "a1")
        memory = str(config["url"])
        shown = run("memory", "c1", "--memory", memory)
        (found,) = objects(run("--memory", memory, "memory", "c1", "--json").output)
        missing = run("memory", "c2", env={"JAZZMINE_WORKING_MEMORY": memory})
    assert "user_id: u1\\x1b[2J" in shown.output
    assert found["conversation_id"] == "c1"
    assert missing.status == 1


def test_the_times_of_a_working_memory_are_shown_in_utc(tmp_path: Path) -> None:
    memory = f"sqlite:{tmp_path}/agent.db"
    with WorkingMemoryStore.initialize(memory) as store:
        store.get_or_create("c1", "u1", "a1")
        flow = ActiveFlowState("f", "n", "flow", started_at=1e9)
        store.start_flow("c1", flow)
        store.record_tool_call("c1", ToolCallRecord("t", {"called_at": 5.0}, called_at=1e9 + 1))
        store.request_confirmation("c1", PendingConfirmation("f", "pay", {}, 1, 1e9 + 2))
    lines = [line.strip() for line in run("memory", "c1", "--memory", memory).output.splitlines()]
    (found,) = objects(run("memory", "c1", "--memory", memory, "--json").output)
    for shown in (
        "started_at: 2001-09-09 01:46:40Z",
        "called_at: 2001-09-09 01:46:41Z",
        "requested_at: 2001-09-09 01:46:42Z",
        "called_at: 5.0",
    ):
        assert shown in lines
    assert not any(line.startswith(("created_at: 1", "last_updated: 1")) for line in lines)
    assert found["active_flow"]["started_at"] == 1e9


def test_working_memory_of_this_process_alone_is_a_wrong_usage() -> None:
    assert run("memory", "c1").status == 2
    assert run("memory", "c1", "--memory", "memory:").status == 2
