"""Records the messages and the calls of a turn while an agent works on it."""

from __future__ import annotations

from threading import Lock
from time import monotonic_ns, time_ns
from typing import Any
from uuid import uuid4

from jazzmine.records.messages import Message, MessageRole
from jazzmine.records.recorded_calls import ModelCall, ToolCall, text_of
from jazzmine.records.traces import LLMCallRecord, ToolTrace, TurnTrace

__all__ = ["TurnRecorder"]


class _Step:
    """A message, and the calls of tools that it asks for."""

    def __init__(self, message: Message, *, is_implied: bool = False) -> None:
        self.message = message
        self.calls: list[ToolCall] = []
        self.is_implied = is_implied

    def messages(self) -> list[Message]:
        """Return the message and the tools' answers; calls that have not ended are left out."""
        ended = [call for call in self.calls if call.has_ended]
        if self.is_implied and not ended:
            return []
        message = Message.model_validate(self.message)
        if ended:
            message.metadata = {
                **message.metadata,
                "tool_calls": [call.request() for call in ended],
            }
            message.invoked_tools = [call.record.tool_name for call in ended]
        return [message, *(call.message(message) for call in ended)]


class TurnRecorder:
    """Measures one turn of an agent, and makes its messages and its trace.

    What is recorded in a turn is what `append_messages` takes:

        recorder = TurnRecorder(conversation_id="c1", user_id="ada", agent_id="desk")
        recorder.user("Where is my order?")
        with recorder.model_call("small-1") as call:
            answer = model(prompt)
            call.usage(prompt_tokens=answer.prompt_tokens, completion_tokens=answer.tokens)
        recorder.assistant(answer.text)
        store.append_messages("c1", recorder.messages, trace=recorder.trace)

    It waits for nothing, so it is the same in async code, and tasks and threads may use it at once.
    Times come from one clock that never goes back: the time of the system when the turn began,
    and what has passed since.

    Calls of tools belong to the assistant's message that was recorded last, or to one without a
    text, if a model was called since. That message has `invoked_tools`, and in its `metadata`
    under `tool_calls` a list of `{"id", "name", "arguments"}`. After it comes a message of the role
    TOOL for each of the calls. Its text is the result, or the error; its `metadata` has
    `tool_call_id` and `tool_name`, and if the call failed, its `errors` say why.

    Attributes:
        metadata: anything else about the turn, a JSON object for the trace.
    """

    def __init__(
        self, *, conversation_id: str, user_id: str, agent_id: str, turn_number: int = 0
    ) -> None:
        """Begin a turn.

        Args:
            conversation_id: the conversation that the messages are for.
            user_id: the user of the messages and the trace.
            agent_id: the agent that answers.
            turn_number: the number of the turn in its conversation, by which traces are listed;
                those of equal numbers are listed in the order in which they were stored.
        """
        self.metadata: dict[str, Any] = {}
        self._conversation_id = conversation_id
        self._user_id = user_id
        self._agent_id = agent_id
        self._turn_number = turn_number
        self._trace_id = str(uuid4())
        self._started_at_ms = time_ns() // 1_000_000
        self._started_ns = monotonic_ns()
        self._ended_at_ms = self._started_at_ms
        self._lock = Lock()
        self._steps: list[_Step] = []
        self._model_calls: list[ModelCall] = []
        self._tool_calls: list[ToolCall] = []
        self._errors: list[str] = []
        # The message that the next call of a tool belongs to, and how many of its calls run.
        self._caller: _Step | None = None
        self._running_tools = 0

    def user(self, text: str, **fields: Any) -> Message:
        """Record a message of the user.

        Args:
            text: what the user wrote.
            **fields: other fields of the message, such as `id` or `metadata`.

        Returns:
            The message. What is changed in it before `messages` is read will be stored.

        Raises:
            ValidationError: a field cannot be stored.
        """
        return self._say(MessageRole.USER, text, fields)

    def assistant(self, text: str, **fields: Any) -> Message:
        """Record a message of the assistant; the trace belongs to the last one.

        Args:
            text: what the assistant answered, or said before it called tools.
            **fields: other fields of the message, such as `id` or `metadata`.

        Returns:
            The message. What is changed in it before `messages` is read will be stored.

        Raises:
            ValidationError: a field cannot be stored.
        """
        return self._say(MessageRole.ASSISTANT, text, fields)

    def model_call(
        self, model: str, *, purpose: str = "agent_loop", provider: str = "", input: Any = None
    ) -> ModelCall:
        """Return a context manager that measures a call of a model.

        Args:
            model: the name of the model.
            purpose: what the call is for.
            provider: who runs the model, such as "openai".
            input: what is sent, if it is to be kept; any JSON value.

        Raises:
            ValidationError: an argument cannot be stored.
        """
        record = LLMCallRecord(
            model=model, purpose=purpose, provider=provider, input=input, timestamp_ms=0
        )
        return ModelCall(record, self._begin_model_call, self._end_model_call)

    def tool_call(
        self, name: str, arguments: Any = None, *, call_id: str | None = None
    ) -> ToolCall:
        """Return a context manager that measures a call of a tool.

        Args:
            name: the name of the tool.
            arguments: what it is called with; any JSON value.
            call_id: the id that the provider gave the call; a new one by default.

        Raises:
            ValidationError: an argument cannot be stored.
        """
        record = ToolTrace(
            tool_name=name,
            arguments=arguments,
            call_id=f"call_{uuid4().hex}" if call_id is None else call_id,
        )
        return ToolCall(record, self._begin_tool_call, self._end_tool_call)

    def error(self, error: BaseException | str) -> None:
        """Note what went wrong outside of the calls; a turn with any error counts as failed."""
        with self._lock:
            self._errors.append(text_of(error))
            self._ended_at_ms = self._now()

    @property
    def messages(self) -> list[Message]:
        """The messages of the turn, in their order, with the calls that have ended."""
        with self._lock:
            messages = [message for step in self._steps for message in step.messages()]
        latest = self._started_at_ms
        for message in messages:
            # Calls that ran at once are in the order in which they began, and may end in another.
            message.timestamp = latest = max(latest, message.timestamp)
        return messages

    @property
    def trace(self) -> TurnTrace:
        """The trace of the turn, with the calls that have ended.

        It belongs to the last message of the assistant, or, if there is none, to the last message.

        Raises:
            ValueError: no message was recorded.
        """
        messages = self.messages
        if not messages:
            raise ValueError("a trace belongs to a message: record one with user() or assistant()")
        of_assistant = [message for message in messages if message.role is MessageRole.ASSISTANT]
        return self.trace_of((of_assistant or messages)[-1].id)

    def trace_of(self, message_id: str) -> TurnTrace:
        """Return the trace of the turn for a message that was made elsewhere.

        Args:
            message_id: the message that the trace belongs to.
        """
        with self._lock:
            calls = [call.record for call in self._model_calls if call.has_ended]
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
                total_prompt_tokens=sum(call.prompt_tokens for call in calls),
                total_completion_tokens=sum(call.completion_tokens for call in calls),
                total_tokens=sum(call.total_tokens for call in calls),
                llm_calls=calls,
                tool_traces=[call.record for call in self._tool_calls if call.has_ended],
                errors=self._errors,
                metadata=self.metadata,
            )

    def _now(self) -> int:
        return self._started_at_ms + (monotonic_ns() - self._started_ns) // 1_000_000

    def _say(self, role: MessageRole, text: str, fields: dict[str, Any]) -> Message:
        given = {"timestamp": self._now(), **fields}
        message = Message(
            conversation_id=self._conversation_id,
            user_id=self._user_id,
            role=role,
            original_content=text,
            **given,
        )
        with self._lock:
            step = _Step(message)
            self._steps.append(step)
            self._caller = step if role is MessageRole.ASSISTANT else None
            self._ended_at_ms = self._now()
        return message

    def _begin_model_call(self, call: ModelCall) -> None:
        with self._lock:
            call.record.timestamp_ms = self._now()
            self._model_calls.append(call)
            # A model that is called while tools run is called by one of them.
            if not self._running_tools:
                self._caller = None

    def _end_model_call(self, call: ModelCall) -> None:
        with self._lock:
            self._ended_at_ms = self._now()
            call.record.latency_ms = self._ended_at_ms - call.record.timestamp_ms
            self._note(call.record.model, call.record.error)
            call.has_ended = True

    def _begin_tool_call(self, call: ToolCall) -> None:
        with self._lock:
            call.record.started_at_ms = now = self._now()
            if self._caller is None:
                silent = Message(
                    conversation_id=self._conversation_id,
                    user_id=self._user_id,
                    role=MessageRole.ASSISTANT,
                    original_content="",
                    timestamp=now,
                )
                self._caller = _Step(silent, is_implied=True)
                self._steps.append(self._caller)
            self._caller.calls.append(call)
            self._tool_calls.append(call)
            self._running_tools += 1

    def _end_tool_call(self, call: ToolCall) -> None:
        with self._lock:
            call.ended_at_ms = self._ended_at_ms = self._now()
            call.record.total_latency_ms = self._ended_at_ms - (call.record.started_at_ms or 0)
            call.record.success = call.record.error is None
            self._note(call.record.tool_name, call.record.error)
            self._running_tools -= 1
            call.has_ended = True

    def _note(self, name: str, error: str | None) -> None:
        if error is not None:
            self._errors.append(f"{name}: {error}")
