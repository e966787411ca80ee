"""The trace of one run of a framework's agent, stored beside the messages of the run."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError, to_jsonable_python

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine.adapters._encoding import readable
from jazzmine.errors import IntegrityError, NotFoundError
from jazzmine.records.messages import Conversation, Message, MessageRole
from jazzmine.records.recorded_calls import ModelCall, ToolCall
from jazzmine.records.traces import TurnTrace
from jazzmine.records.turn_recorder import TurnRecorder
from jazzmine.records.types import plain_json
from jazzmine.records.usage import TraceFilter

__all__ = ["RunRecorder", "append_with_traces", "json_value", "parsed_json"]

T = TypeVar("T")

_TITLE_LENGTH = 60

# How many characters of a tool's arguments or result are kept. A trace is stored as a whole each
# time that a run goes on, and no back end takes one of any size.
_MAX_VALUE = 50_000

# How many of the oldest messages may hold the first one of the user.
_TITLE_MESSAGES = 50


class RunRecorder:
    """Measures the calls of one run, and stores their trace with the messages of the run.

    A framework hands over messages while the run goes on, or at its end, and may be killed at any
    moment. So the trace is stored in one step with the first messages of the run that hold one of
    the assistant, and belongs to the last such. What is recorded later is stored before the next
    messages are, and at the end. A run that fails before that leaves its trace with its last
    message, or, if it stored none, with a flagged message of its own, which no agent gets to see.

    Args:
        store: an open message store with the async API.
        conversation_id: the conversation of the run's messages.
        user_id: the user of the run.
        agent_id: the agent that runs.

    Attributes:
        store: the store; another form of it may take its place.
        user_id: the user, who may be known only when messages are stored.
        turn_number: the number of the run in its conversation; None until its trace is stored,
            and then the next one, unless it is set.
    """

    def __init__(
        self, store: AsyncMessageStore, conversation_id: str, user_id: str, agent_id: str
    ) -> None:
        self.conversation_id: str = conversation_id
        self.store: AsyncMessageStore = store
        self.user_id: str = user_id
        self._agent_id = agent_id
        self._turn = TurnRecorder(
            conversation_id=conversation_id, user_id=user_id or "unknown", agent_id=agent_id
        )
        self._models: dict[object, ModelCall] = {}
        self._ended: ModelCall | None = None
        self._tools: dict[object, ToolCall] = {}
        self.turn_number: int | None = None
        # The message that the trace is stored with, and how it was stored.
        self._message_id: str | None = None
        self._stored: TurnTrace | None = None
        self._last_id: str | None = None
        self._failed: BaseException | str | None = None
        self._has_title = False

    # What is recorded. A call is found again by its key; one that never ends is left out.

    def begin_model_call(self, key: object, model: str, provider: str = "") -> None:
        """Note that a model is called."""
        call = self._turn.model_call(readable(model), provider=readable(provider))
        call.begin()
        self._models[key] = call

    def end_model_call(
        self,
        key: object,
        usage: Mapping[str, int | None] | None = None,
        *,
        model: str | None = None,
        error: BaseException | str | None = None,
    ) -> None:
        """Note the end of a model's call.

        Args:
            key: the key that the call began with.
            usage: as in `note_usage`.
            model: the name of the model, if it is known now.
            error: why there is no answer.
        """
        call = self._models.pop(key, None)
        if call is None:
            return
        if model:
            call.record.model = readable(model)
        self._failed = error if error is not None else self._failed
        _end(call, error)
        self._ended = call
        self.note_usage(usage)

    def note_usage(self, usage: Mapping[str, int | None] | None) -> None:
        """Note what the model's call that ended last used.

        Args:
            usage: the arguments of `ModelCall.usage`; None counts as 0.
        """
        if usage and self._ended is not None:
            counts = {name: count for name, count in usage.items() if count is not None}
            self._ended.usage(**counts)

    def begin_tool_call(self, key: object, name: str, arguments: object, call_id: str) -> None:
        """Note that a tool is called, with any arguments."""
        call = self._turn.tool_call(
            readable(name), json_value(arguments), call_id=readable(call_id)
        )
        call.begin()
        self._tools[key] = call

    def end_tool_call(
        self, key: object, result: object = None, *, error: BaseException | str | None = None
    ) -> None:
        """Note the end of a tool's call, with any result, or why there is none."""
        call = self._tools.pop(key, None)
        if call is not None:
            call.result(json_value(result))
            _end(call, error)

    def forget_tool_call(self, key: object) -> None:
        """Leave out a call that did not take place."""
        self._tools.pop(key, None)

    def measured(self, message_id: str) -> TurnTrace:
        """Return what was recorded until now as the trace of a message."""
        return self._turn.trace_of(message_id)

    # What is stored.

    async def trace_with(self, messages: Sequence[Message]) -> TurnTrace | None:
        """Return the trace to append with messages, or store it, if it is stored already.

        Args:
            messages: what the framework hands over next.
        """
        if self._message_id is not None:
            await self._store_changes()
        if self._message_id is None:
            answers = [message for message in messages if message.role is MessageRole.ASSISTANT]
            return await self._trace_of(answers[-1].id) if answers else None
        return None

    async def appended(self, messages: Sequence[Message], trace: TurnTrace | None) -> None:
        """Note that messages were appended with what `trace_with` returned."""
        if not messages:
            return
        self._last_id = messages[-1].id
        if trace is not None:
            self._message_id, self._stored = trace.message_id, trace
        if not self._has_title:
            await self._give_title()

    async def finish(self, error: BaseException | None = None) -> None:
        """Store what is not stored yet.

        Args:
            error: why the run failed. Calls that have not ended failed with it.
        """
        if error is not None:
            self._fail(error)
        if self._message_id is None and self._failed is not None:
            self._message_id = self._last_id or await self._append_note()
        if self._message_id is not None:
            await self._store_changes()

    def _fail(self, error: BaseException) -> None:
        self._failed = error
        if not self._models and not self._tools:
            self._turn.error(error)
        for key in list(self._tools):
            self.end_tool_call(key, error=error)
        for key in list(self._models):
            self.end_model_call(key, error=error)

    async def _store_changes(self) -> None:
        if self._message_id is None:
            return
        trace = await self._trace_of(self._message_id)
        if trace == self._stored:
            return
        try:
            await self.store.store_turn_trace(trace)
            self._stored = trace
        except IntegrityError:
            # The message was deleted meanwhile, and the trace with it.
            self._message_id = None

    async def _trace_of(self, message_id: str) -> TurnTrace:
        if self.turn_number is None:
            where = TraceFilter(conversation_id=self.conversation_id)
            newest = await self.store.find_turn_traces(where, limit=1)
            self.turn_number = newest[0].turn_number + 1 if newest else 1
        trace = self.measured(message_id)
        changes = {"turn_number": self.turn_number, "user_id": self.user_id}
        return trace.model_copy(update=changes)

    async def _append_note(self) -> str:
        note = Message(
            conversation_id=self.conversation_id,
            user_id=self.user_id,
            role=MessageRole.SYSTEM,
            original_content="[the run failed]",
            is_flagged=True,
        )
        await self.store.get_or_create_conversation(
            Conversation(id=self.conversation_id, user_id=self.user_id, agent_id=self._agent_id)
        )
        await self.store.append_messages(self.conversation_id, [note])
        return note.id

    async def _give_title(self) -> None:
        """Give the conversation a title from the first message of the user, if it has none."""
        conversation = await self.store.get_conversation_by_id(self.conversation_id)
        if conversation is None or conversation.title:
            self._has_title = conversation is not None
            return
        oldest = await self.store.get_messages_by_conversation_id(
            self.conversation_id, limit=_TITLE_MESSAGES
        )
        said = (message.original_content for message in oldest if message.role is MessageRole.USER)
        # What a program says in the name of the user is marked up.
        title = next((text for text in map(_shortened, said) if text and text[0] != "<"), "")
        if title:
            with suppress(NotFoundError):
                await self.store.edit_conversation(self.conversation_id, title=title)
            self._has_title = True


async def append_with_traces(
    store: AsyncMessageStore,
    runs: Sequence[tuple[RunRecorder, Sequence[Message]]],
    append: Callable[[TurnTrace | None], Awaitable[T]],
) -> T:
    """Append messages with the traces of their runs.

    Args:
        store: the store of the traces.
        runs: the runs that the messages are of, with the messages of each, in their order.
        append: appends all messages, and a trace in the same step.
    """
    traces: list[TurnTrace | None] = []
    for run, messages in runs:
        earlier = [trace.turn_number for trace in traces if trace is not None]
        if earlier and run.turn_number is None:
            run.turn_number = earlier[-1] + 1
        traces.append(await run.trace_with(messages))
    unsaved = [trace for trace in traces if trace is not None]
    result = await append(unsaved[-1] if unsaved else None)
    for earlier_trace in unsaved[:-1]:
        await store.store_turn_trace(earlier_trace)
    for (run, messages), trace in zip(runs, traces, strict=True):
        await run.appended(messages, trace)
    return result


def json_value(value: object) -> Any:
    """Return a value as a trace can hold it: as JSON, or else as text; a long one is cut."""
    try:
        plain = plain_json(
            to_jsonable_python(
                value, serialize_unknown=True, inf_nan_mode="strings", bytes_mode="base64"
            )
        )
    except (PydanticSerializationError, ValueError, RecursionError):
        plain = readable(str(value))
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return plain if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}…"


def parsed_json(text: object) -> Any:
    """Return the value of a JSON text, as models write arguments; anything else as it is."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _end(call: ModelCall | ToolCall, error: BaseException | str | None) -> None:
    call.end(error)


def _shortened(text: str) -> str:
    return textwrap.shorten(text[:1000], _TITLE_LENGTH, placeholder="…")
