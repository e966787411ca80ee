"""What the recorders of all adapters have in common."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from jazzmine import Conversation, Message, MessageRole
from jazzmine.adapters._calls import called_directly, completed
from jazzmine.adapters._recorder import RunRecorder, parsed_json
from jazzmine.sync import MessageStore


def test_arguments_that_are_no_json_stay_text() -> None:
    assert parsed_json('{"a": 1}') == {"a": 1}
    assert parsed_json("{broken") == "{broken"
    assert parsed_json({"a": 1}) == {"a": 1}


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


def test_calls_that_did_not_end_are_left_out(sync_store: MessageStore) -> None:
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
