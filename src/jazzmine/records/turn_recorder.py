"""Records the messages and the calls of a turn while an agent works on it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from threading import Lock
from time import monotonic_ns, time_ns
from typing import Any
from uuid import uuid4

from pydantic import ValidationError

from jazzmine.records.arguments import require_count, require_id
from jazzmine.records.messages import Message, MessageRole
from jazzmine.records.recorded_calls import ModelCall, ToolCall, open_tools, text_of
from jazzmine.records.storable import MAX_VALUE, storable_copy, storable_json, storable_text
from jazzmine.records.traces import LLMCallRecord, ToolTrace, TurnTrace
from jazzmine.records.types import MAX_INT

__all__ = ["TurnRecorder"]


# The longest JSON of a trace. MongoDB takes 16 MiB, and needs up to six times the length of the
# JSON for a list of numbers.
_MAX_RECORD = 2_000_000

# How many characters are kept of each value of a longer trace: as many as fit, of those.
_LIMITS = [MAX_VALUE >> halvings for halvings in range(10)]

# Metadata of the program is cut less than recorded values.
_MAX_METADATA = 1_000_000


class _Step:
    """A message, implied if only its calls of tools were recorded, and these calls."""

    def __init__(self, message: Message, purpose: str, *, is_implied: bool = False) -> None:
        self.message = message
        self.purpose = purpose
        self.calls: list[ToolCall] = []
        self.is_implied = is_implied

    @property
    def is_shown(self) -> bool:
        """Whether the message was recorded, or one of its calls has ended."""
        return not self.is_implied or any(call.has_ended for call in self.calls)

    def messages(self) -> list[Message]:
        """Return the message and the tools' answers; calls that have not ended are left out."""
        if not self.is_shown:
            return []
        ended = [call for call in self.calls if call.has_ended]
        message = self._message_with(ended)
        return [message, *(call.message(message) for call in ended)]

    def _message_with(self, calls: list[ToolCall]) -> Message:
        message = self.message
        if calls:
            metadata = {**message.metadata, "tool_calls": [call.request() for call in calls]}
            tools = [call.record.tool_name for call in calls]
            message = message.model_copy(update={"metadata": metadata, "invoked_tools": tools})
        try:
            return Message.model_validate(message)
        except ValidationError:  # something was put into it in place
            return storable_copy(message, _MAX_METADATA)


class TurnRecorder:
    """Measures one turn of an agent, and makes its messages and its trace.

    `append_messages` stores the recorded messages and the trace:

        recorder = TurnRecorder(conversation_id="c1", user_id="ada", agent_id="desk")
        recorder.user("Where is my order?")
        with recorder.model_call("small-1") as call:
            answer = model(prompt)
            call.usage(prompt_tokens=answer.prompt_tokens, completion_tokens=answer.tokens)
        recorder.assistant(answer.text)
        store.append_messages("c1", recorder.messages, trace=recorder.trace)

    It waits for nothing, so it is the same in async code, and tasks and threads may use it at once.
    Times come from one clock that never goes back.

    It refuses no value: a value that JSON cannot hold becomes text, and of each value 50,000
    characters are kept. A call of a tool inside of another tool's block is named in the
    `api_calls` of that tool, and is not among the messages. Other calls of tools belong to the
    assistant's message that was recorded last, or to one without a text, if a model was called
    since for the same purpose. That message has `invoked_tools`, and in its `metadata` under
    `tool_calls` a list of `{"id", "name", "arguments"}`. After it comes a message of the role TOOL
    for each of the calls. Its text is the result or the error; its `metadata` has `tool_call_id`
    and `tool_name`, and if the call failed, its `errors` have the reason.

    Attributes:
        metadata: anything else about the turn, a JSON object for the trace.
    """

    def __init__(
        self, *, conversation_id: str, user_id: str, agent_id: str, turn_number: int = 0
    ) -> None:
        """Begin a turn.

        Args:
            conversation_id: the conversation of the messages.
            user_id: the user of the messages and the trace.
            agent_id: the agent that answers.
            turn_number: the number of the turn in its conversation; lists of traces are sorted by
                it, and traces with equal numbers by the order in which they were stored.

        Raises:
            TypeError, ValueError: an id is not a text or is empty, or the number is not an integer.
        """
        self.metadata: dict[str, Any] = {}
        self._conversation_id = require_id("conversation_id", conversation_id)
        self._user_id = require_id("user_id", user_id)
        self._agent_id = require_id("agent_id", agent_id)
        self._turn_number = require_count("turn_number", turn_number)
        self._trace_id = str(uuid4())
        self._started_at_ms = time_ns() // 1_000_000
        self._started_ns = monotonic_ns()
        self._ended_at_ms = self._started_at_ms
        self._lock = Lock()
        self._steps: list[_Step] = []
        self._model_calls: list[ModelCall] = []
        self._tool_calls: list[ToolCall] = []
        self._errors: list[str] = []
        # The purposes of the models' calls since the last message.
        self._purposes: list[str] = []
        # The message of the next call of a tool, and the number of its running calls.
        self._caller: _Step | None = None
        self._running_tools = 0

    def user(self, text: str, **fields: Any) -> Message:
        """Record a message of the user.

        Args:
            text: the text; 50,000 characters are kept.
            **fields: other fields of the message, such as `id` or `metadata`.

        Returns:
            The message. Changes before `messages` is read will be stored.

        Raises:
            ValidationError: a message has no such field, or the field is of another type.
        """
        return self._say(MessageRole.USER, text, fields)

    def assistant(self, text: str, **fields: Any) -> Message:
        """Record a message of the assistant; the trace belongs to the last one.

        Args:
            text: the answer, or a text before calls of tools; 50,000 characters are kept.
            **fields: other fields of the message, such as `id` or `metadata`.

        Returns:
            The message. Changes before `messages` is read will be stored.

        Raises:
            ValidationError: a message has no such field, or the field is of another type.
        """
        return self._say(MessageRole.ASSISTANT, text, fields)

    def model_call(
        self, model: str, *, purpose: str = "agent_loop", provider: str = "", input: Any = None
    ) -> ModelCall:
        """Return a context manager that measures a call of a model.

        Args:
            model: the name of the model.
            purpose: the purpose of the call.
            provider: the provider of the model, such as "openai".
            input: the input, to keep it in the trace; any value.
        """
        record = LLMCallRecord(
            model=storable_text(model),
            purpose=storable_text(purpose),
            provider=storable_text(provider),
            input=storable_json(input),
            timestamp_ms=0,
        )
        return ModelCall(record, self._begin_model_call, self._end_model_call)

    def tool_call(
        self, name: str, arguments: Any = None, *, call_id: str | None = None
    ) -> ToolCall:
        """Return a context manager that measures a call of a tool.

        Args:
            name: the name of the tool.
            arguments: the arguments; any value.
            call_id: the id that the provider gave the call; a new one by default.
        """
        record = ToolTrace(
            tool_name=storable_text(name),
            arguments=storable_json(arguments),
            call_id=storable_text(call_id) or f"call_{uuid4().hex}",
        )
        return ToolCall(record, self._begin_tool_call, self._end_tool_call)

    def error(self, error: BaseException | str) -> None:
        """Note an error, unless a call has noted it; a turn with any error counts as failed."""
        text = text_of(error)
        with self._lock:
            if not any(noted.endswith(f": {text}") for noted in self._errors):
                self._errors.append(text)
            self._ended_at_ms = self._now()

    @property
    def messages(self) -> list[Message]:
        """The messages of the turn, in their order, with the calls that have ended."""
        with self._lock:
            messages = [message for step in self._steps for message in step.messages()]
        latest = self._started_at_ms
        for message in messages:
            # Concurrent calls are in the order of their start.
            if message.timestamp < latest:
                message.timestamp = latest
            latest = message.timestamp
        return messages

    @property
    def trace(self) -> TurnTrace:
        """The trace of the turn, with the calls that have ended.

        It belongs to the last message of the assistant, or, if there is none, to the last message.

        Raises:
            ValueError: no message was recorded.
        """
        with self._lock:
            steps = [step for step in self._steps if step.is_shown]
        if not steps:
            raise ValueError("a trace belongs to a message: record one with user() or assistant()")
        answers = [step for step in steps if step.message.role is MessageRole.ASSISTANT]
        return self.trace_of((answers or steps)[-1].message.id)

    def trace_of(self, message_id: str) -> TurnTrace:
        """Return the trace of the turn for a message that was made elsewhere.

        Args:
            message_id: the message that the trace belongs to.
        """
        with self._lock:
            models = [call.record for call in self._model_calls if call.has_ended]
            tools = [call.record for call in self._tool_calls if call.has_ended]
            with suppress(ValidationError):  # something was put into a record in place
                trace = self._build_trace(message_id, models, tools, None)
                if len(trace.model_dump_json()) <= _MAX_RECORD:
                    return trace
            for limit in _LIMITS:
                trace = self._build_trace(message_id, models, tools, limit)
                if len(trace.model_dump_json()) <= _MAX_RECORD:
                    break
            return trace

    def _build_trace(
        self,
        message_id: str,
        models: list[LLMCallRecord],
        tools: list[ToolTrace],
        limit: int | None,
    ) -> TurnTrace:
        if limit is not None:
            models = [storable_copy(call, limit) for call in models]
            tools = [storable_copy(call, limit) for call in tools]
        metadata = storable_json(self.metadata, _MAX_METADATA)
        return TurnTrace(
            id=self._trace_id,
            message_id=message_id,
            conversation_id=self._conversation_id,
            user_id=self._user_id,
            agent_id=self._agent_id,
            turn_number=self._turn_number,
            started_at_ms=self._started_at_ms,
            ended_at_ms=self._ended_at_ms,
            total_latency_ms=self._ended_at_ms - self._started_at_ms,
            total_prompt_tokens=_sum(call.prompt_tokens for call in models),
            total_completion_tokens=_sum(call.completion_tokens for call in models),
            total_tokens=_sum(call.total_tokens for call in models),
            llm_calls=models,
            tool_traces=tools,
            errors=[storable_text(error, limit or MAX_VALUE) for error in self._errors],
            metadata=metadata if isinstance(metadata, dict) else {"metadata": metadata},
            **self._about_question(),
        )

    def _about_question(self) -> dict[str, Any]:
        for step in reversed(self._steps):
            message = step.message
            if message.role is MessageRole.USER:
                return {
                    "detected_intent": message.intent,
                    "detected_entities": [entity.name for entity in message.entities],
                    "sentiment_score": message.sentiment_score,
                    "is_continuation": message.is_continuation,
                    "is_cancellation": message.is_cancellation,
                }
        return {}

    def _now(self) -> int:
        return self._started_at_ms + (monotonic_ns() - self._started_ns) // 1_000_000

    def _say(self, role: MessageRole, text: str, fields: dict[str, Any]) -> Message:
        stored = {name: storable_json(value, _MAX_METADATA) for name, value in fields.items()}
        stored.setdefault("timestamp", self._now())
        message = Message(
            conversation_id=self._conversation_id,
            user_id=self._user_id,
            role=role,
            original_content=storable_text(text),
            **stored,
        )
        with self._lock:
            step = _Step(message, self._purpose())
            self._steps.append(step)
            self._caller = step if role is MessageRole.ASSISTANT else None
            self._purposes.clear()
            self._ended_at_ms = self._now()
        return message

    def _purpose(self) -> str:
        """Return the purpose of the next message's model, beside models that check it."""
        if "agent_loop" in self._purposes or not self._purposes:
            return "agent_loop"
        return self._purposes[-1]

    def _begin_model_call(self, call: ModelCall) -> None:
        outer = open_tools()
        purpose = call.record.purpose
        with self._lock:
            vars(call.record).update(timestamp_ms=self._now())
            self._model_calls.append(call)
            if outer:
                inner = {"model": call.record.model, "call_id": call.record.call_id}
                self._belongs_to(outer, inner)
            # A model that is called while tools run is called by one of them. One that is called
            # for something else, such as a title, asks for no tools.
            caller = self._caller
            if caller is not None and caller.purpose == purpose and not self._running_tools:
                self._caller = None
            self._purposes.append(purpose)

    def _end_model_call(self, call: ModelCall, errors: list[str]) -> None:
        with self._lock:
            self._ended_at_ms = now = self._now()
            vars(call.record).update(latency_ms=now - call.record.timestamp_ms)
            self._note(call.record.model, errors)
            call.has_ended = True

    def _begin_tool_call(self, call: ToolCall) -> None:
        outer = open_tools()
        record = call.record
        with self._lock:
            now = self._now()
            vars(record).update(started_at_ms=now)
            self._tool_calls.append(call)
            self._running_tools += 1
            inner = {"tool": record.tool_name, "call_id": record.call_id}
            if outer and self._belongs_to(outer, inner):
                return
            if self._caller is None:
                silent = Message(
                    conversation_id=self._conversation_id,
                    user_id=self._user_id,
                    role=MessageRole.ASSISTANT,
                    original_content="",
                    timestamp=now,
                )
                self._caller = _Step(silent, self._purpose(), is_implied=True)
                self._steps.append(self._caller)
            self._caller.calls.append(call)

    def _end_tool_call(self, call: ToolCall, errors: list[str]) -> None:
        with self._lock:
            record = call.record
            call.ended_at_ms = self._ended_at_ms = now = self._now()
            latency = now - (record.started_at_ms or 0)
            vars(record).update(total_latency_ms=latency, success=record.error is None)
            self._note(record.tool_name, errors)
            self._running_tools -= 1
            call.has_ended = True

    def _belongs_to(self, open_calls: list[ToolCall], inner: dict[str, Any]) -> bool:
        """Note a call in the tool of this turn around it; False if there is none."""
        for outer in open_calls:
            if any(outer is call for call in self._tool_calls):
                outer.record.api_calls.append(inner)
                return True
        return False

    def _note(self, name: str, errors: list[str]) -> None:
        self._errors += [storable_text(f"{name}: {error}") for error in errors]


def _sum(counts: Iterable[int]) -> int:
    return min(sum(counts), MAX_INT)
