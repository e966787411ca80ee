"""The loops of the guide before a provider that plays badly: nothing that was paid is lost."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace as Reply
from typing import Any

import pytest

from jazzmine import Message, MessageRole, TraceFilter, TurnRecorder, TurnTrace
from tests.examples.test_documentation import defined_in

DEFINITIONS = ("import json", "def function_of", "def tokens", "def stream", "def for_anthropic")


class ProviderError(Exception):
    """What the provider raises; nothing else may end a turn."""


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the guide defines, as it is printed."""
    monkeypatch.chdir(tmp_path)
    names = defined_in("guides/your-own-loop.md", lambda text: text.startswith(DEFINITIONS))
    names["TOOLS"] |= {"fails": fails, "returns_anything": lambda **_: {1, float("nan")}}
    yield names
    names["store"].close()


def fails(**_: Any) -> None:
    raise ValueError("half of an emoji \ud83d, and a megabyte " + "x" * 10**6)


class Provider:
    """Answers badly in every way, and counts what it was paid for."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.paid = 0
        self.chat = Reply(completions=Reply(create=self.create))

    def create(self, *, stream: bool = False, **_: Any) -> Any:
        if self.random.random() < 0.1:
            raise ProviderError("no answer \ud800")
        if stream:
            return self.chunks()
        choices = [] if self.random.random() < 0.05 else [Reply(message=self.message())]
        return Reply(choices=choices, usage=self.usage())

    def chunks(self) -> Iterator[Any]:
        for _ in range(self.random.randrange(4)):
            piece = self.random.choice(["It ", None, "half \ud83d"])
            yield Reply(choices=[Reply(delta=Reply(content=piece))], usage=None)
            if self.random.random() < 0.1:
                raise ProviderError("the stream broke")
        yield Reply(choices=[], usage=self.usage())

    def message(self) -> Any:
        content = self.random.choice([None, "", "It is.", "half \ud83d", "x" * 60_000])
        count = self.random.choice([0, 0, 1, 2])
        return Reply(content=content, tool_calls=[self.call() for _ in range(count)] or None)

    def call(self) -> Any:
        name = self.random.choice(["find_order", "fails", "returns_anything", "unknown"])
        arguments = self.random.choice(['{"id": 1}', "{}", "{broken", '{"id": NaN}', "[]", "null"])
        id_ = self.random.choice([None, "call_1", f"call_{self.random.random()}"])
        return Reply(id=id_, function=Reply(name=name, arguments=arguments))

    def usage(self) -> Any:
        if self.random.random() < 0.2:
            return None
        prompt, completion = self.random.randrange(1, 99), self.random.randrange(99)
        self.paid += prompt + completion
        used = Reply(prompt_tokens=prompt, completion_tokens=completion)
        details: list[Callable[[], None]] = [
            lambda: None,
            lambda: vars(used).update(prompt_tokens_details=None),
            lambda: vars(used).update(prompt_tokens_details=Reply(cached_tokens=None)),
        ]
        self.random.choice(details)()
        return used


def test_every_paid_token_is_stored_once_and_no_turn_is_lost(guide: dict[str, Any]) -> None:
    provider = Provider(seed=7)
    for number in range(500):
        try:
            if number % 3:
                guide["answer"](provider, f"question {number}")
            else:
                streamed = guide["stream"](provider, f"question {number}")
                for _ in streamed:
                    if provider.random.random() < 0.1:  # the browser goes away
                        streamed.close()
                        break
        except (ProviderError, IndexError):
            pass

    store = guide["store"]
    messages = store.get_messages_by_conversation_id("c1")
    questions = [one.original_content for one in messages if one.role is MessageRole.USER]
    assert questions == [f"question {number}" for number in range(500)]
    traces: list[TurnTrace] = store.get_turn_traces_by_conversation_id("c1")
    assert len(traces) == 500
    assert sum(trace.total_tokens for trace in traces) == provider.paid
    [usage] = store.summarize_usage(TraceFilter(), by="agent")
    assert (usage.turns, usage.total_tokens) == (500, provider.paid)
    calls = [call for trace in traces for call in trace.llm_calls]
    assert usage.unreported_calls == sum(not call.total_tokens for call in calls) > 0
    assert len({trace.message_id for trace in traces}) == 500


def test_a_provider_takes_each_window(guide: dict[str, Any]) -> None:
    store, chat = guide["store"], guide["chat"]
    for number in range(8):
        recorder = TurnRecorder(conversation_id=chat.id, user_id="ada", agent_id="desk")
        recorder.user("Where are they?")
        recorder.assistant("")
        for name in ("find_order", "fails")[: number % 3]:
            with recorder.tool_call(name, {"id": 1}, call_id="call_0") as call:
                call.result({"id": 1})
        recorder.assistant("Here.")
        role = (MessageRole.SYSTEM, MessageRole.COLLEAGUE_ASSISTANT)[number % 2]
        added = Message(
            conversation_id=chat.id, user_id="ada", role=role, original_content="A note."
        )
        store.append_messages(chat.id, [*recorder.messages, added])
    for budget in range(20, 600, 13):
        window = store.get_context_window(chat.id, max_tokens=budget)
        roles = {one["role"] for one in guide["for_openai"](window)}
        assert roles <= {"user", "assistant", "tool", "system"}
        if any(message.role is MessageRole.USER for message in window):
            require_taken_by_anthropic(guide["for_anthropic"](window))


def require_taken_by_anthropic(prompt: list[dict[str, Any]]) -> None:
    """Check that the user begins, and that each call of a tool is answered in the next message."""
    assert [one["role"] for one in prompt] == ["user", "assistant"] * (len(prompt) // 2) + [
        "user"
    ] * (len(prompt) % 2)
    asked: list[str] = []
    for one in prompt:
        blocks = one["content"]
        answers = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert answers == asked
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert asked == []
