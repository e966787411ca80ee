"""The blocks of a `TurnRecorder` record once, change nothing, and know whose calls are theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from jazzmine import TurnRecorder


@pytest.fixture
def recorder() -> TurnRecorder:
    recorder = TurnRecorder(conversation_id="c1", user_id="ada", agent_id="desk")
    recorder.user("Hello")
    return recorder


def block(recorder: TurnRecorder, kind: str) -> Any:
    return recorder.model_call("m") if kind == "model" else recorder.tool_call("m")


def calls(recorder: TurnRecorder) -> list[Any]:
    return [*recorder.trace.llm_calls, *recorder.trace.tool_traces]


def requests(recorder: TurnRecorder) -> dict[str, list[str]]:
    """Return the tools that each message of the assistant asks for."""
    return {
        message.original_content: [call["name"] for call in message.metadata.get("tool_calls", [])]
        for message in recorder.messages
        if message.role.value == "assistant"
    }


KINDS = pytest.mark.parametrize("kind", ["model", "tool"])


@KINDS
def test_a_block_records_once(recorder: TurnRecorder, kind: str) -> None:
    call = block(recorder, kind)
    with call, pytest.raises(RuntimeError, match="one call"), call:
        pass
    with pytest.raises(RuntimeError, match="one call"), call:
        pass
    call.end("too late")

    assert len(calls(recorder)) == 1
    assert calls(recorder)[0].success


def test_a_call_without_its_block_is_an_error(recorder: TurnRecorder) -> None:
    uses: list[Callable[[], None]] = [
        lambda: recorder.model_call("m").usage(prompt_tokens=1),
        lambda: recorder.model_call("m").output("x"),
        lambda: recorder.tool_call("m").result("x"),
        lambda: recorder.tool_call("m").error("x"),
    ]
    for use in uses:
        with pytest.raises(RuntimeError, match="with recorder"):
            use()


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


@KINDS
@pytest.mark.parametrize(
    ("raised", "noted"),
    [
        (ConnectionError("no answer"), "ConnectionError: no answer"),
        (UnprintableError(), "UnprintableError: <UnprintableError>"),
    ],
    ids=["text", "no text"],
)
@pytest.mark.every_combination
def test_an_exception_is_noted_and_goes_through_as_it_is(
    recorder: TurnRecorder, kind: str, raised: Exception, noted: str
) -> None:
    with pytest.raises(type(raised)) as caught, block(recorder, kind):
        raise raised

    assert caught.value is raised
    [call] = calls(recorder)
    assert (call.success, call.error) == (False, noted)
    assert recorder.trace.errors == [f"m: {noted}"]
    for tool in recorder.trace.tool_traces:
        assert tool.traceback is not None
        assert f'"{__file__}", line ' in tool.traceback


@KINDS
def test_a_noted_error_stays(recorder: TurnRecorder, kind: str) -> None:
    with suppress(OSError), block(recorder, kind) as call:
        call.error("the order is locked")
        raise OSError("and the line is dead")

    assert calls(recorder)[0].error == "the order is locked"
    assert recorder.trace.errors == [
        "m: the order is locked",
        "m: OSError: and the line is dead",
    ]


@KINDS
def test_causes_and_members_of_groups_are_kept(recorder: TurnRecorder, kind: str) -> None:
    with suppress(RuntimeError), block(recorder, kind):
        try:
            raise KeyError("stock")
        except KeyError as error:
            raise RuntimeError("no answer") from error
    assert calls(recorder)[0].error == "RuntimeError: no answer, caused by KeyError: 'stock'"

    group = OSError("two tools")
    vars(group)["exceptions"] = (OSError("a"), ValueError("b"))  # as an ExceptionGroup has them
    recorder.error(group)
    assert recorder.trace.errors[-1] == "OSError: two tools [OSError: a; ValueError: b]"


@KINDS
def test_a_cancellation_is_its_class_alone(recorder: TurnRecorder, kind: str) -> None:
    with suppress(asyncio.CancelledError), block(recorder, kind):
        raise asyncio.CancelledError("Cancelled by cancel scope 7f2a from /srv/app.py")

    assert calls(recorder)[0].error == "CancelledError"
    assert "/srv/" not in recorder.trace.model_dump_json()
    assert all(call.traceback is None for call in recorder.trace.tool_traces)


def test_a_tool_called_inside_of_a_tool_belongs_to_that_tool(recorder: TurnRecorder) -> None:
    colleague = TurnRecorder(conversation_id="c2", user_id="ada", agent_id="desk")
    colleague.assistant("I delegate.")
    with recorder.model_call("m"):
        recorder.assistant("I book.")
    with recorder.tool_call("book", call_id="outer"):
        with recorder.model_call("small", purpose="agent_loop"):
            pass
        with recorder.tool_call("find_seat", call_id="inner"):
            pass
    with colleague.tool_call("colleague"), recorder.tool_call("mail"):
        pass

    assert requests(recorder) == {"I book.": ["book", "mail"]}
    assert [tool.api_calls for tool in colleague.trace.tool_traces] == [[]]
    assert [one.role.value for one in recorder.messages].count("tool") == 2
    outer = recorder.trace.tool_traces[0]
    assert [next(iter(inner)) for inner in outer.api_calls] == ["model", "tool"]
    assert outer.api_calls[1] == {"tool": "find_seat", "call_id": "inner"}
    assert len(recorder.trace.tool_traces) == 3


async def test_tasks_inside_of_a_tool_belong_to_it(recorder: TurnRecorder) -> None:
    async def look_up(name: str) -> None:
        with recorder.tool_call(name):
            await asyncio.sleep(0.001)

    def in_thread() -> None:
        with recorder.tool_call("in_thread"):
            pass

    async def compare() -> None:
        with recorder.tool_call("compare"):
            await asyncio.gather(look_up("a"), look_up("b"), asyncio.to_thread(in_thread))

    recorder.assistant("I look.")
    await asyncio.gather(compare(), look_up("c"))
    assert requests(recorder) == {"I look.": ["compare", "c"]}


@pytest.mark.parametrize("purpose", ["moderation", "title"])
def test_a_model_with_another_purpose_takes_no_tools(recorder: TurnRecorder, purpose: str) -> None:
    for number in ("one", "two"):
        with recorder.model_call("m"):
            pass
        with recorder.model_call("guard", purpose="moderation"):
            pass
        recorder.assistant(number)
        with recorder.model_call("small", purpose=purpose):
            pass
        with recorder.tool_call(f"tool_{number}"):
            pass
    with recorder.model_call("m"):
        pass
    with recorder.tool_call("tool_three"):
        pass

    assert requests(recorder) == {"one": ["tool_one"], "two": ["tool_two"], "": ["tool_three"]}
