"""What the recorders of all adapters have in common."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from jazzmine import Conversation, Message, MessageRole
from jazzmine.adapters._calls import called_directly, completed
from jazzmine.adapters._recorder import RunRecorder, parsed_json, shortened
from jazzmine.sync import MessageStore


def test_arguments_that_are_no_json_stay_text() -> None:
    assert parsed_json('{"a": 1}') == {"a": 1}
    assert parsed_json("{broken") == "{broken"
    assert parsed_json({"a": 1}) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Will it\n rain?", "Will it rain?"),
        (30 * "rain ", 11 * "rain " + "rain…"),
        (30 * "雨が降る", (15 * "雨が降る")[:-1] + "…"),
        ("See https://" + 60 * "a", "See https://" + 47 * "a" + "…"),
    ],
)
def test_a_title_is_the_beginning_of_a_text(text: str, title: str) -> None:
    assert shortened(text) == title


def test_a_coroutine_that_waits_cannot_be_completed_at_once(sync_store: MessageStore) -> None:
    assert completed(called_directly(sync_store).get_conversation_by_id("c")) is None
    with pytest.raises(RuntimeError, match="waits for an event loop"):
        completed(_wait())


async def _wait() -> None:
    await Waiting()


class Waiting:
    """What a task of an event loop waits for."""

    def __await__(self) -> Generator[None, None, None]:
        yield


def test_calls_at_once_may_have_one_id(sync_store: MessageStore) -> None:
    run = RunRecorder(called_directly(sync_store), "c", "u", "a")
    for number in range(4):
        run.begin_tool_call("call_0", "weather", {"day": number}, "call_0")
    for number in range(2):
        run.end_tool_call("call_0", number)
    completed(run.finish(TimeoutError()))

    (trace,) = sync_store.get_turn_traces_by_conversation_id("c")
    assert [(call.arguments, call.final_data) for call in trace.tool_traces] == [
        ({"day": 0}, 0),
        ({"day": 1}, 1),
        ({"day": 2}, None),
        ({"day": 3}, None),
    ]
    assert not run.has_open_calls


def test_calls_that_did_not_end_are_left_out(
    sync_store: MessageStore,
) -> None:
    sync_store.store_conversation(Conversation(id="c", user_id="u", agent_id="a", title="t"))
    run = RunRecorder(called_directly(sync_store), "c", "u", "a")
    answer = Message(
        conversation_id="c", user_id="u", role=MessageRole.ASSISTANT, original_content="Hm."
    )
    run.begin_model_call("ended", "model")
    run.end_model_call("ended", {"prompt_tokens": 3, "completion_tokens": None})
    run.begin_model_call("running", "model")
    run.begin_tool_call("tool", "weather", {}, "k")
    run.end_tool_call("unknown")

    trace = completed(run.trace_with([answer]))

    assert trace is not None
    assert [call.prompt_tokens for call in trace.llm_calls] == [3]
    assert trace.tool_traces == []


def test_a_trace_whose_reply_was_lost_keeps_its_number(sync_store: MessageStore) -> None:
    sync_store.store_conversation(Conversation(id="c", user_id="u", agent_id="a"))
    run = RunRecorder(called_directly(sync_store), "c", "u", "a")
    answer = Message(
        conversation_id="c", user_id="u", role=MessageRole.ASSISTANT, original_content="Hm."
    )
    sync_store.append_messages("c", [answer], trace=completed(run.trace_with([answer])))

    again = completed(run.trace_with([answer]))

    assert again is not None
    assert again.turn_number == 1
